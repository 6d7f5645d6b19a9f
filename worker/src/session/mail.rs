//! What people say to the agent, and how far it has come.

use super::Session;
use crate::agents::{Ask, Mood, Say};
use crate::event::Event;
use crate::state::Pending;
use client::ReceiptIn;
use contract::messages::MessageOut;
use domain::MessageId;
use domain::message::{MessageType, State};
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
    /// `interrupt`, `stop` or `shutdown`.
    pub reason: &'static str,
}

impl Session {
    pub(super) async fn message(&mut self, message: MessageOut) {
        let MessageOut { id, message_type, content, sender, .. } = message;
        let uuid = Uuid::new_v5(&MESSAGES, format!("{}/{id}", self.config.sandbox).as_bytes());
        let sender_id = sender.id.clone();
        self.state.injected += 1;
        self.outbox.tell(
            Event::worker("agent.message_injected")
                .named(format!("injected-{uuid}"))
                .with("message_type", serde_json::to_value(message_type).unwrap_or_default())
                .with("content_length", content.chars().count())
                .with("content", content.as_str())
                .with("sender", serde_json::to_value(&sender).unwrap_or_default())
                .with("sender_id", sender_id.clone().map_or(serde_json::Value::Null, Into::into))
                .with("message_id", id.as_str())
                .with("message_uuid", uuid.to_string())
                .with("intervention_number", self.state.injected)
                .with("turn", self.turns),
        );
        if message_type == MessageType::Stop {
            self.next_iteration = None;
            self.confirm(&id, State::Started);
            self.interrupt(Interruption { message_id: Some(id), sender_id, reason: "stop" }).await;
            return;
        }
        let text = spoken(message_type, &content);
        let pending =
            Pending { message_id: id.clone(), message_type, uuid, text: text.clone(), delivered: false };
        self.state.pending.push(pending);
        // Noted before it is said: a worker that dies in between finds in the agent's record whether it was.
        self.save();
        self.ask(Ask::Say(Say { uuid, text })).await;
        if message_type == MessageType::Interrupt && self.mood == Mood::Working {
            // Said first, so that the agent goes on with it at once.
            self.interrupt(Interruption { message_id: Some(id), sender_id, reason: "interrupt" }).await;
        }
    }

    /// The plane has not heard that the agent has this one. The agent is not told again: if its record does not have
    /// it, it was when the agent was started.
    pub(super) fn came_again(&self, id: &MessageId) {
        if self.state.pending.iter().any(|pending| pending.message_id == *id && pending.delivered) {
            self.confirm(id, State::Delivered);
        }
    }

    /// Stops the turn; with everything that waits behind it, unless the one who stops it has something to say.
    pub(super) async fn interrupt(&mut self, interruption: Interruption) {
        let cancel_queued = interruption.reason != "interrupt";
        self.interruption = Some(interruption);
        if self.agent.is_some() {
            self.ask(Ask::Interrupt { cancel_queued }).await;
        } else {
            self.interrupted(&[]);
        }
    }

    /// The agent has stopped.
    pub(super) fn interrupted(&mut self, cancelled: &[Uuid]) {
        let Some(interruption) = self.interruption.take() else { return };
        let Interruption { message_id, sender_id, reason } = interruption;
        let event = Event::agent("agent.interrupted")
            .with("reason", reason)
            .with("turn", self.turns)
            .with_some("message_id", message_id.as_ref().map(MessageId::as_str))
            .with_some("sender_id", sender_id)
            .with("cancelled", cancelled.iter().map(Uuid::to_string).collect::<Vec<_>>());
        self.outbox.tell(event);
        if let (Some(id), "stop") = (message_id, reason) {
            self.confirm(&id, State::Completed);
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
    match message_type {
        MessageType::Guidance => format!("[Guidance from the guardian that watches this run]\n{content}"),
        MessageType::System => format!("[Notice from the control plane]\n{content}"),
        MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop => content.to_owned(),
    }
}
