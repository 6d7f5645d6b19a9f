//! What people say to the agent, and how far it has come.

use super::Session;
use crate::agents::{Ask, Mood, Say};
use crate::event::Event;
use crate::state::{Pending, Step};
use client::ReceiptIn;
use contract::messages::MessageOut;
use domain::MessageId;
use domain::message::{MessageType, Sender, State};
use tokio::time::Instant;
use uuid::Uuid;

/// Our names for messages: the same message has the same name in every life of the worker, so the agent's own record
/// tells whether it has read it.
const MESSAGES: Uuid = Uuid::from_u128(0x9f0c_53d1_6c1e_4a52_9a5e_0b7c_51d2_7d10);

/// Somebody stops the turn.
#[derive(Debug)]
pub(super) struct Interruption {
    /// Which message, if it was one.
    pub message_id: Option<MessageId>,
    /// Who.
    pub sender_id: Option<String>,
    /// `interrupt`, `stop`, `max_duration` or `shutdown`.
    pub reason: &'static str,
}

impl Session {
    pub(super) async fn message(&mut self, message: MessageOut) {
        let MessageOut { id, message_type, content, sender, .. } = message;
        let uuid = Uuid::new_v5(&MESSAGES, format!("{}/{id}", self.config.sandbox).as_bytes());
        if self.outbox.knows(&injected(uuid)) {
            // Given and done with in an earlier life, of which the plane has not heard yet: the receipt is on its way.
            return;
        }
        let text = spoken(message_type, &content);
        let delivered = message_type == MessageType::Stop;
        let pending = Pending { message_id: id.clone(), message_type, uuid, text: text.clone(), delivered };
        // Noted before it is told and said: a worker that dies in between finds in the agent's record whether it was.
        self.state.pending.push(pending);
        self.state.injected += 1;
        if self.state.step == Step::Stopped && message_type != MessageType::Stop {
            self.state.step = Step::Working;
        }
        self.save();
        self.tell_of_message(&self.state.pending[self.state.pending.len() - 1], Some(&sender));
        let sender_id = sender.id;
        let interruption = |reason| Interruption { message_id: Some(id.clone()), sender_id, reason };
        match message_type {
            MessageType::Stop => self.stop(interruption("stop")).await,
            // There is no turn to stop, but one that would be taken up again: it is not.
            MessageType::Interrupt if self.agent.is_none() => self.interrupt(interruption("interrupt")).await,
            MessageType::Interrupt if self.mood == Mood::Working => {
                // Said first, so that the agent goes on with it at once.
                self.ask(Ask::Say(Say { uuid, text })).await;
                self.interrupt(interruption("interrupt")).await;
            }
            _ => self.ask(Ask::Say(Say { uuid, text })).await,
        }
        if self.agent.is_none() && self.restart_at.is_none() && message_type != MessageType::Stop {
            // It had been given up. Somebody asks for it again, who may have mended it.
            self.restart_at = Some(Instant::now());
        }
    }

    /// Tells that a message is given to the agent, once.
    pub(super) fn tell_of_message(&self, pending: &Pending, sender: Option<&Sender>) {
        let Pending { message_id, message_type, uuid, text, .. } = pending;
        let json = |sender: &Sender| serde_json::to_value(sender).unwrap_or_default();
        let sender_id = sender.and_then(|sender| sender.id.clone());
        let content = content(*message_type, text);
        self.outbox.tell(
            Event::worker("agent.message_injected")
                .named(injected(*uuid))
                .with("message_type", serde_json::to_value(message_type).unwrap_or_default())
                .with("content_length", content.chars().count())
                .with("content", content)
                .with("sender", sender.map(json).unwrap_or_default())
                .with("sender_id", sender_id.map_or(serde_json::Value::Null, Into::into))
                .with("message_id", message_id.as_str())
                .with("message_uuid", uuid.to_string())
                .with("intervention_number", self.state.injected)
                .with("turn", self.turns),
        );
    }

    /// The plane has not heard that the agent has this one. The agent is not told again: if its record does not have
    /// it, it was when the agent was started.
    pub(super) fn came_again(&self, id: &MessageId) {
        if self.state.pending.iter().any(|pending| pending.message_id == *id && pending.delivered) {
            self.confirm(id, State::Delivered);
        }
    }

    /// Everything ends, and nothing goes on until somebody says so. A task that is as good as over is over.
    async fn stop(&mut self, interruption: Interruption) {
        if !matches!(self.state.step, Step::Finishing(_)) {
            self.next_iteration = None;
            if let Some(validation) = self.inspection.take() {
                validation.abort();
            }
            self.state.step = Step::Stopped;
            self.save();
        }
        if let Some(id) = &interruption.message_id {
            self.confirm(id, State::Started);
        }
        self.interrupt(interruption).await;
    }

    /// Stops the turn; with everything that waits behind it, unless the one who stops it has something to say.
    pub(super) async fn interrupt(&mut self, interruption: Interruption) {
        let cancel_queued = interruption.reason != "interrupt";
        self.interruptions.push(interruption);
        if self.agent.is_some() {
            self.ask(Ask::Interrupt { cancel_queued }).await;
        } else {
            self.interrupted_without_agent();
        }
    }

    /// Whoever stopped the turn of an agent that is gone has stopped it.
    pub(super) fn interrupted_without_agent(&mut self) {
        if self.interruptions.iter().any(|interruption| interruption.reason == "stop") {
            let waiting = |pending: &&Pending| pending.message_type != MessageType::Stop;
            let waiting: Vec<Uuid> =
                self.state.pending.iter().filter(waiting).map(|pending| pending.uuid).collect();
            for uuid in &waiting {
                self.receipt(*uuid, State::Cancelled);
            }
            self.interrupted(&waiting);
        } else {
            self.interrupted(&[]);
        }
    }

    /// The agent has stopped.
    pub(super) fn interrupted(&mut self, cancelled: &[Uuid]) {
        for Interruption { message_id, sender_id, reason } in std::mem::take(&mut self.interruptions) {
            let event = Event::agent("agent.interrupted")
                .with("reason", reason)
                .with("turn", self.turns)
                .with_some("message_id", message_id.as_ref().map(MessageId::as_str))
                .with_some("sender_id", sender_id)
                .with("cancelled", cancelled.iter().map(Uuid::to_string).collect::<Vec<_>>());
            match &message_id {
                Some(id) => self.tell_once(&format!("interrupted-{id}"), event),
                None => self.outbox.tell(event),
            }
            let stop = |pending: &Pending| {
                Some(&pending.message_id) == message_id.as_ref() && pending.message_type == MessageType::Stop
            };
            if let Some(uuid) = self.state.pending.iter().find(|pending| stop(pending)).map(|stop| stop.uuid)
            {
                self.receipt(uuid, State::Completed);
                if self.mood == Mood::Idle && self.state.outcome.is_none() {
                    // Nothing ran that could end.
                    self.wait_for_messages("stopped; say how to go on");
                }
            }
        }
    }

    /// The agent has come so far with what it was told.
    pub(super) fn receipt(&mut self, uuid: Uuid, state: State) {
        let Some(index) = self.state.pending.iter().position(|pending| pending.uuid == uuid) else {
            // A prompt of ours.
            return;
        };
        self.state.pending[index].delivered = true;
        let id = self.state.pending[index].message_id.clone();
        self.confirm(&id, state);
        if state >= State::Completed {
            self.state.pending.remove(index);
        }
        self.save();
    }

    pub(super) fn confirm(&self, id: &MessageId, state: State) {
        self.outbox.receipt(ReceiptIn { message_id: id.clone(), state, detail: None });
    }
}

/// What the agent reads: it must be able to tell a person from a machine.
fn spoken(message_type: MessageType, content: &str) -> String {
    format!("{}{content}", preface(message_type))
}

/// What was said, of what the agent reads.
fn content(message_type: MessageType, spoken: &str) -> &str {
    spoken.strip_prefix(preface(message_type)).unwrap_or(spoken)
}

fn preface(message_type: MessageType) -> &'static str {
    match message_type {
        MessageType::Guidance => "[Guidance from the guardian that watches this run]\n",
        MessageType::System => "[Notice from the control plane]\n",
        MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop => "",
    }
}

fn injected(uuid: Uuid) -> String {
    format!("injected-{uuid}")
}
