//! Events that the plane emits when a sandbox, a task or a ticket changes.

use crate::{EventType, JsonObject};
use serde_json::Value;

/// A lifecycle event before it has an id and a place in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LifecycleEvent {
    pub event_type: EventType,
    pub data: JsonObject,
}

impl LifecycleEvent {
    /// `task.{name}`
    pub fn of_task(name: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_task(name), data: JsonObject::of(data) }
    }

    /// `sandbox.{name}`
    pub fn of_sandbox(name: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_sandbox(name), data: JsonObject::of(data) }
    }

    /// `ticket.{name}`
    pub fn of_ticket(name: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_ticket(name), data: JsonObject::of(data) }
    }
}
