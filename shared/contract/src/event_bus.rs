//! Lifecycle events on EventBridge.

use crate::socket::EventFrame;
use domain::{Entity, Event, OrgId};
use serde::Serialize;

/// The `detail` of an event, which rules match on: the frame that sockets get, and the org.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    pub org: OrgId,
    #[serde(flatten)]
    pub frame: EventFrame,
}

impl Detail {
    pub fn new(org: &OrgId, entity: &Entity, event: &Event) -> Self {
        Self { org: org.clone(), frame: EventFrame::new(entity, event) }
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("our own structs serialize to JSON")
    }
}
