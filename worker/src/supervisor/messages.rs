//! Hands messages to the agent and tracks their receipts.

use super::Supervisor;
use crate::agents::{AgentActivity, AgentCommand, UserMessage};
use crate::event::Event;
use crate::state::{Pending, Step};
use client::ReceiptIn;
use contract::messages::MessageOut;
use contract::payloads::{AgentInterrupted, AgentMessageInjected};
use domain::MessageId;
use domain::message::{MessageType, Sender, State};
use tokio::time::Instant;
use uuid::Uuid;

/// Namespace of message ids. A message has the same id after a restart, so the agent's transcript shows whether the
/// agent has read it.
const MESSAGES: Uuid = Uuid::from_u128(0x9f0c_53d1_6c1e_4a52_9a5e_0b7c_51d2_7d10);

/// A request to stop the current turn.
#[derive(Debug)]
pub(super) struct Interruption {
    /// The message that requested it, if any.
    pub message_id: Option<MessageId>,
    pub sender_id: Option<String>,
    /// `interrupt`, `stop`, `max_duration` or `shutdown`.
    pub reason: &'static str,
}

impl Supervisor {
    pub(super) async fn handle_message(&mut self, message: MessageOut) {
        let MessageOut { id, message_type, content, sender, .. } = message;
        let uuid = Uuid::new_v5(&MESSAGES, format!("{}/{id}", self.config.sandbox).as_bytes());
        if self.outbox.has_emitted(&injected_event_id(uuid)) {
            // Already processed before a restart. The receipt is still in the outbox.
            self.deliveries.held.remove(&id);
            return;
        }
        let text = agent_text(message_type, &content);
        let delivered = message_type == MessageType::Stop;
        let pending = Pending { message_id: id.clone(), message_type, uuid, text: text.clone(), delivered };
        // Save before emitting and sending: after a crash in between, the transcript shows whether the agent received
        // it.
        self.state.pending.push(pending);
        self.state.injected += 1;
        if self.state.step == Step::Stopped && message_type != MessageType::Stop {
            self.state.step = Step::Working;
        }
        self.save();
        self.emit_message_injected(&self.state.pending[self.state.pending.len() - 1], Some(&sender));
        let sender_id = sender.id;
        let interruption = |reason| Interruption { message_id: Some(id.clone()), sender_id, reason };
        match message_type {
            MessageType::Stop => self.stop(interruption("stop")).await,
            // No agent is running. The interruption prevents that its turn is resumed.
            MessageType::Interrupt if self.agent.is_none() => self.interrupt(interruption("interrupt")).await,
            MessageType::Interrupt if self.activity == AgentActivity::Working => {
                // Send the text first, so that the agent continues with it after the interrupt.
                self.send_command(AgentCommand::Message(UserMessage { uuid, text })).await;
                self.interrupt(interruption("interrupt")).await;
            }
            _ => self.send_command(AgentCommand::Message(UserMessage { uuid, text })).await,
        }
        if self.agent.is_none() && self.schedule.restart_at.is_none() && message_type != MessageType::Stop {
            // The agent had failed for good. A new message restarts it, since the cause may be fixed.
            self.schedule.restart_at = Some(Instant::now());
        }
    }

    /// Emits `agent.message_injected`. Idempotent.
    pub(super) fn emit_message_injected(&self, pending: &Pending, sender: Option<&Sender>) {
        let Pending { message_id, message_type, uuid, text, .. } = pending;
        let content = content(*message_type, text);
        let event = Event::worker(AgentMessageInjected {
            message_type: Some(*message_type),
            content: content.to_owned(),
            content_length: content.chars().count() as u64,
            sender: sender.cloned(),
            sender_id: sender.and_then(|sender| sender.id.clone()),
            message_id: message_id.to_string(),
            message_uuid: uuid.to_string(),
            intervention_number: self.state.injected,
            turn: self.turns,
        });
        self.outbox.emit(event.with_id(injected_event_id(*uuid)));
    }

    /// Sends the receipt of a redelivered message again. The agent does not need it again: messages that are not in its
    /// transcript are sent when it is started.
    pub(super) fn redelivered(&self, id: &MessageId) {
        if self.state.pending.iter().any(|pending| pending.message_id == *id && pending.delivered) {
            self.send_receipt(id, State::Delivered);
        }
    }

    /// Stops all work until the next message. A task that is being finished still finishes.
    async fn stop(&mut self, interruption: Interruption) {
        if !matches!(self.state.step, Step::Finishing(_)) {
            self.schedule.next_iteration = None;
            if let Some(validation) = self.inspection.take() {
                validation.abort();
            }
            self.state.step = Step::Stopped;
            self.save();
        }
        if let Some(id) = &interruption.message_id {
            self.send_receipt(id, State::Started);
        }
        self.interrupt(interruption).await;
    }

    /// Stops the current turn. Queued messages are cancelled too, unless the interruption carries a message itself.
    pub(super) async fn interrupt(&mut self, interruption: Interruption) {
        let cancel_queued = interruption.reason != "interrupt";
        self.deliveries.interruptions.push(interruption);
        if self.agent.is_some() {
            self.send_command(AgentCommand::Interrupt { cancel_queued }).await;
        } else {
            self.interrupted_without_agent();
        }
    }

    /// Confirms interruptions of an agent that is not running.
    pub(super) fn interrupted_without_agent(&mut self) {
        if self.deliveries.interruptions.iter().any(|interruption| interruption.reason == "stop") {
            let is_queued = |pending: &&Pending| pending.message_type != MessageType::Stop;
            let queued: Vec<Uuid> =
                self.state.pending.iter().filter(is_queued).map(|pending| pending.uuid).collect();
            for uuid in &queued {
                self.receipt(*uuid, State::Cancelled);
            }
            self.interrupted(&queued);
        } else {
            self.interrupted(&[]);
        }
    }

    /// Confirms all pending interruptions: the agent has stopped its turn.
    pub(super) fn interrupted(&mut self, cancelled: &[Uuid]) {
        for Interruption { message_id, sender_id, reason } in
            std::mem::take(&mut self.deliveries.interruptions)
        {
            let event = Event::agent(AgentInterrupted {
                reason: reason.to_owned(),
                turn: self.turns,
                message_id: message_id.as_ref().map(MessageId::to_string),
                sender_id,
                cancelled: cancelled.iter().map(Uuid::to_string).collect(),
            });
            match &message_id {
                Some(id) => self.emit_once(&format!("interrupted-{id}"), event),
                None => self.outbox.emit(event),
            }
            let stop = |pending: &Pending| {
                Some(&pending.message_id) == message_id.as_ref() && pending.message_type == MessageType::Stop
            };
            if let Some(uuid) = self.state.pending.iter().find(|pending| stop(pending)).map(|stop| stop.uuid)
            {
                self.receipt(uuid, State::Completed);
                if self.activity == AgentActivity::Idle && self.state.outcome.is_none() {
                    // No turn was running that would report its end.
                    self.wait_for_messages("Stopped; waiting for messages");
                }
            }
        }
    }

    /// Records how far the agent has processed a message.
    pub(super) fn receipt(&mut self, uuid: Uuid, state: State) {
        let Some(index) = self.state.pending.iter().position(|pending| pending.uuid == uuid) else {
            // A prompt of the worker, which has no receipts.
            return;
        };
        self.state.pending[index].delivered = true;
        let id = self.state.pending[index].message_id.clone();
        self.send_receipt(&id, state);
        if state >= State::Completed {
            self.state.pending.remove(index);
        }
        self.save();
    }

    pub(super) fn send_receipt(&self, id: &MessageId, state: State) {
        self.deliveries.held.remove(id);
        self.outbox.receipt(ReceiptIn { message_id: id.clone(), state, detail: None });
    }
}

/// The text for the agent. It must be able to distinguish people from automated messages.
fn agent_text(message_type: MessageType, content: &str) -> String {
    format!("{}{content}", prefix(message_type))
}

/// The original content of [`agent_text`].
fn content(message_type: MessageType, text: &str) -> &str {
    text.strip_prefix(prefix(message_type)).unwrap_or(text)
}

fn prefix(message_type: MessageType) -> &'static str {
    match message_type {
        MessageType::Guidance => "[Guidance from the guardian that watches this run]\n",
        MessageType::System => "[Notice from the control plane]\n",
        MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop => "",
    }
}

fn injected_event_id(uuid: Uuid) -> String {
    format!("injected-{uuid}")
}
