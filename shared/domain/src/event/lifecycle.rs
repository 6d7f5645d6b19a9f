//! Events that the plane emits when a sandbox, a task, a ticket or a message changes.

use super::catalogue::Payload;
use crate::message::Sender;
use crate::{EventType, JsonObject};

/// A lifecycle event before it has an id and a place in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LifecycleEvent {
    pub event_type: EventType,
    pub data: JsonObject,
}

impl LifecycleEvent {
    pub fn new<P: Payload>(payload: &P) -> Self {
        Self { event_type: EventType::of::<P>(), data: JsonObject::of(payload) }
    }

    /// Sets `by`, which every payload has that a caller can cause.
    pub(crate) fn name_caller(&mut self, caller: &Sender) {
        let caller = serde_json::value::to_raw_value(caller).expect("a sender serializes");
        self.data = self.data.with_fields(&[("by", Some(caller))]);
    }
}
