//! Events that the plane itself appends to logs.

use crate::IdSource;
use crate::error::Error;
use contract::payloads::{Payload, TicketBlocked, TicketTransitioned, TicketUnblocked};
use domain::event::LifecycleEvent;
use domain::ingest::{Batch, NewEvent};
use domain::task::transitions::Transition;
use domain::ticket::Blocked;
use domain::{Sandbox, Source, Task, Ticket, Timestamp};
use store::Store;
use store::commit::Change;
use store::ledger;
use store::log::{Append, Appended};

/// Events and the changes to messages that they describe. Written in one transaction.
#[derive(Debug)]
pub(crate) struct EventBatch<'a> {
    ids: &'a dyn IdSource,
    pub(crate) events: Vec<NewEvent>,
    pub(crate) changes: Vec<ledger::Change>,
}

impl<'a> EventBatch<'a> {
    pub(crate) fn new(ids: &'a dyn IdSource) -> Self {
        Self { ids, events: Vec::new(), changes: Vec::new() }
    }

    pub(crate) fn event(&mut self, source: Source, payload: &impl Payload) {
        let LifecycleEvent { event_type, data } = LifecycleEvent::new(payload);
        let id = self.ids.event();
        self.events.push(NewEvent { id, event_type, source, data, emitted_at: None });
    }

    /// The sandbox with these events and messages counted.
    pub(crate) fn sandbox_after(&self, before: &Sandbox) -> Sandbox {
        let mut after = before.with_events(&self.events);
        let count =
            |moves: fn(&ledger::Change) -> bool| self.changes.iter().filter(|c| moves(c)).count() as u64;
        let (entered, left) = (count(ledger::Change::enters_mailbox), count(ledger::Change::leaves_mailbox));
        after.activity.waiting = (before.activity.waiting + entered).saturating_sub(left);
        after
    }

    /// Writes all of it, if the sandbox is still at the version of `before`.
    pub(crate) async fn write(
        self,
        store: &Store,
        before: &Sandbox,
        after: &Sandbox,
        now: Timestamp,
    ) -> Result<Written, Error> {
        let batch = Batch::new(None, self.events, String::new());
        let (first_seq, changes) = (before.seq + 1, self.changes.as_slice());
        let append = Append { before, after, first_seq, batch: &batch, now, idempotency: None, changes };
        match store.append(append).await? {
            Appended::Stored(sandbox) => Ok(Written::Stored(sandbox)),
            Appended::Conflict(sandbox) => Ok(Written::Conflict(sandbox)),
            Appended::MessageExists(message) => Ok(Written::MessageExists(message)),
            unexpected @ (Appended::KeyUsed(_) | Appended::TooLarge) => {
                Err(Error::Internal(format!("events of the plane were not stored: {unexpected:?}").into()))
            }
        }
    }
}

pub(crate) enum Written {
    /// Holds the new state of the sandbox.
    Stored(Box<Sandbox>),
    /// Another writer committed first. Holds the current state of the sandbox, if it is known.
    Conflict(Option<Box<Sandbox>>),
    MessageExists(Box<domain::Message>),
}

pub(crate) fn event_of(ids: &dyn IdSource, event: LifecycleEvent) -> NewEvent {
    let LifecycleEvent { event_type, data } = event;
    NewEvent { id: ids.event(), event_type, source: Source::System, data, emitted_at: None }
}

pub(crate) fn events_of(ids: &dyn IdSource, events: Vec<LifecycleEvent>) -> Vec<NewEvent> {
    events.into_iter().map(|event| event_of(ids, event)).collect()
}

/// The change that a transition of a task commits.
pub(crate) fn task_change<'a>(
    ids: &dyn IdSource,
    before: &'a Task,
    transition: Transition,
) -> Change<'a, Task> {
    Change { before: Some(before), after: transition.task, events: events_of(ids, transition.events) }
}

/// The events of a ticket whose status or blocker has changed with its task.
pub(crate) fn ticket_events(
    ids: &dyn IdSource,
    before: &Ticket,
    after: &Ticket,
    task: &Task,
) -> Vec<NewEvent> {
    let mut events = Vec::new();
    if before.status != after.status {
        events.push(LifecycleEvent::new(&TicketTransitioned {
            ticket_id: after.id.clone(),
            from_status: before.status,
            to_status: after.status,
            phase_id: after.phase.clone(),
            task_id: Some(task.id.clone()),
            reason: None,
            forced: None,
            by: None,
        }));
    }
    if before.blocked != after.blocked {
        let (ticket_id, task_id) = (after.id.clone(), task.id.clone());
        let reason_of = |blocked: &Blocked| blocked.reason.clone();
        events.push(match &after.blocked {
            Some(blocked) => {
                let reason = Some(reason_of(blocked));
                LifecycleEvent::new(&TicketBlocked { ticket_id, reason, task_id })
            }
            None => {
                let reason = before.blocked.as_ref().map(reason_of);
                LifecycleEvent::new(&TicketUnblocked { ticket_id, reason, task_id })
            }
        });
    }
    events_of(ids, events)
}
