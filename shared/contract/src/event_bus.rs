//! Lifecycle events on EventBridge.

use crate::socket::EventFrame;
use domain::{Entity, Event, LogHash, OrgId};
use serde::Serialize;

/// The `detail` of an event, which rules match on: the frame that sockets get, and the org.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    pub org: OrgId,
    #[serde(flatten)]
    pub frame: EventFrame,
    /// Absent for events of tasks and tickets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogCheckpoint>,
}

/// The running hash of a sandbox's log at an event. Kept outside of the table, it shows whether the log was changed up to
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogCheckpoint {
    pub seq: u64,
    pub hash: LogHash,
}

impl Detail {
    pub fn new(org: &OrgId, entity: &Entity, event: &Event, log: Option<LogCheckpoint>) -> Self {
        Self { org: org.clone(), frame: EventFrame::new(entity, event), log }
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("our own structs serialize to JSON")
    }
}
