//! What is said on the account's event bus.

use crate::socket::EventFrame;
use domain::{Entity, Event, OrgId};
use serde::Serialize;

/// A turn in a life, as rules see it: the frame that sockets get, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    /// Whose.
    pub org: OrgId,
    /// What happened.
    #[serde(flatten)]
    pub frame: EventFrame,
}

impl Detail {
    /// Of an entity's event.
    pub fn new(org: &OrgId, entity: &Entity, event: &Event) -> Self {
        Self { org: org.clone(), frame: EventFrame::new(entity, event) }
    }

    /// As text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a notice of ours serialises")
    }
}
