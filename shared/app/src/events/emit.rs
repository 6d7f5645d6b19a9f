//! What the plane itself tells in a sandbox's log.

use crate::IdSource;
use crate::error::{Error, chain};
use domain::ingest::{Batch, NewEvent};
use domain::message::State;
use domain::task::transitions::{LifecycleEvent, Transition};
use domain::{EventType, JsonObject, Sandbox, SandboxId, Source, Task, Ticket, Timestamp};
use serde_json::{Value, json};
use store::commit::Change;
use store::ledger;
use store::log::{Append, Appended};
use store::mailboxes::WakeUp;
use store::{Mailboxes, Store};

/// Events, and what they tell of messages: written together or not at all.
#[derive(Debug)]
pub(crate) struct EventBatch<'a> {
    ids: &'a dyn IdSource,
    /// What the log will say.
    pub(crate) events: Vec<NewEvent>,
    /// What the ledger will say.
    pub(crate) changes: Vec<ledger::Change>,
}

impl<'a> EventBatch<'a> {
    pub(crate) fn new(ids: &'a dyn IdSource) -> Self {
        Self { ids, events: Vec::new(), changes: Vec::new() }
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event_type: EventType, source: Source, data: &Value) {
        let data = JsonObject::of(data);
        let id = self.ids.event();
        self.events.push(NewEvent { id, event_type, source, data, emitted_at: None });
    }

    /// Adds that a message has reached a state.
    pub(crate) fn message(&mut self, state: State, source: Source, data: &Value) {
        self.event(EventType::of_message(state), source, data);
    }

    /// How many messages wait no longer.
    pub(crate) fn settled(&self) -> u64 {
        self.changes.iter().filter(|change| matches!(change, ledger::Change::Settled(_))).count() as u64
    }

    /// The head that goes with it.
    pub(crate) fn sandbox_after(&self, before: &Sandbox) -> Sandbox {
        let mut after = before.telling(&self.events);
        let sent =
            self.changes.iter().filter(|change| matches!(change, ledger::Change::Sent(_))).count() as u64;
        after.activity.waiting = (before.activity.waiting + sent).saturating_sub(self.settled());
        after
    }

    /// Writes it on top of the head that was read.
    pub(crate) async fn write(
        self,
        store: &Store,
        before: &Sandbox,
        after: &Sandbox,
        now: Timestamp,
    ) -> Result<Written, Error> {
        let batch = Batch::new(None, self.events, String::new());
        let (first_seq, changes) = (before.seq + 1, self.changes.as_slice());
        let append = Append { before, after, first_seq, batch: &batch, now, once: None, changes };
        match store.append(append).await? {
            Appended::Stored(head) => Ok(Written::Stored(head)),
            Appended::Conflict(head) => Ok(Written::Conflict(head)),
            Appended::MessageKnown(message) => Ok(Written::MessageKnown(message)),
            odd @ (Appended::KeyUsed(_) | Appended::TooLarge) => {
                Err(Error::Internal(format!("what the plane tells was not stored: {odd:?}").into()))
            }
        }
    }
}

/// What became of it.
pub(crate) enum Written {
    /// It is stored; this is the head now.
    Stored(Box<Sandbox>),
    /// Somebody else wrote first: this is the head now, if that is known.
    Conflict(Option<Box<Sandbox>>),
    /// The message was sent before.
    MessageKnown(Box<domain::Message>),
}

/// What the plane tells, as an event on its way into a log.
pub(crate) fn event_of(ids: &dyn IdSource, told: LifecycleEvent) -> NewEvent {
    let LifecycleEvent { event_type, data } = told;
    NewEvent { id: ids.event(), event_type, source: Source::System, data, emitted_at: None }
}

/// Several of them.
pub(crate) fn events_of(ids: &dyn IdSource, told: Vec<LifecycleEvent>) -> Vec<NewEvent> {
    told.into_iter().map(|told| event_of(ids, told)).collect()
}

/// A task's move, ready to be written.
pub(crate) fn task_change<'a>(ids: &dyn IdSource, before: &'a Task, moved: Transition) -> Change<'a, Task> {
    Change { before: Some(before), after: moved.task, events: events_of(ids, moved.events) }
}

/// What a ticket's log says when it has followed this task: it is somewhere else, or something is in its way or is not
/// any more.
pub(crate) fn followed(ids: &dyn IdSource, before: &Ticket, after: &Ticket, task: &Task) -> Vec<NewEvent> {
    let mut told = Vec::new();
    if before.status != after.status {
        let data = json!({
            "ticket_id": after.id, "from_status": before.status, "to_status": after.status, "phase_id": after.phase,
            "task_id": task.id,
        });
        told.push(LifecycleEvent::of_ticket("transitioned", &data));
    }
    if before.blocked != after.blocked {
        let (turn, blocked) = match &after.blocked {
            Some(blocked) => ("blocked", Some(blocked)),
            None => ("unblocked", before.blocked.as_ref()),
        };
        let data = json!({
            "ticket_id": after.id, "reason": blocked.map(|blocked| &blocked.reason), "task_id": task.id,
        });
        told.push(LifecycleEvent::of_ticket(turn, &data));
    }
    events_of(ids, told)
}

/// Wakes whoever waits. What it is about is stored by then: a bell that fails costs a moment, and nobody is refused.
pub(crate) async fn ring(mailboxes: &Mailboxes, sandbox: &SandboxId, bell: WakeUp<'_>) {
    if let Err(error) = mailboxes.ring(sandbox, bell).await {
        tracing::warn!(sandbox.id = %sandbox, "Could not ring for {sandbox}: {}", chain(&error));
    }
}
