//! What the plane itself tells in a sandbox's log.

use crate::ids;
use domain::ingest::{Batch, NewEvent};
use domain::message::State;
use domain::{EventType, Head, JsonObject, Source, Timestamp};
use serde_json::Value;
use store::Store;
use store::ledger::Change;
use store::log::{Append, Appended};

/// An event of ours.
pub(crate) fn event(event_type: EventType, source: Source, data: &Value) -> NewEvent {
    NewEvent { id: ids::event(), event_type, source, data: JsonObject::of(data), emitted_at: None }
}

/// That a message has reached a state.
pub(crate) fn of_message(state: State, source: Source, data: &Value) -> NewEvent {
    event(EventType::of_message(state), source, data)
}

/// Writes events and what they tell of, on top of the head that was read.
pub(crate) async fn tell(
    store: &Store,
    (before, after): (&Head, &Head),
    events: Vec<NewEvent>,
    changes: &[Change],
    now: Timestamp,
) -> Result<Appended, store::Error> {
    let batch = Batch::new(None, events, String::new());
    let first_seq = before.seq + 1;
    store.append(Append { before, after, first_seq, batch: &batch, now, once: None, changes }).await
}
