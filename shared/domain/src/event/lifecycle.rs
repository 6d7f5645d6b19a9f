//! Events that the plane emits when a sandbox, a task, a ticket or a message changes.

use super::catalogue::Payload;
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
}
