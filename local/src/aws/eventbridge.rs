//! The event bus. Nobody hangs rules on it here: the same events come on the socket. It keeps the latest for whoever
//! wants to look.

use super::connector::{Reply, refused};
use app::IdSource;
use app::ids::RandomIds;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;

/// More than anybody looks at.
const MAX_KEPT: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct EventBridge(Mutex<VecDeque<Value>>);

impl EventBridge {
    pub(super) fn published(&self) -> Vec<Value> {
        self.0.lock().expect("no code panics while it holds the bus").iter().cloned().collect()
    }

    pub(super) fn call(&self, operation: &str, body: &[u8]) -> Reply {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(entries) = request["Entries"].as_array().filter(|_| operation == "PutEvents") else {
            return refused(&format!("{operation} is not something that this plane uses"));
        };
        let mut kept = self.0.lock().expect("no code panics while it holds the bus");
        kept.extend(entries.iter().cloned());
        let surplus = kept.len().saturating_sub(MAX_KEPT);
        kept.drain(..surplus);
        let taken: Vec<Value> = entries.iter().map(|_| json!({"EventId": RandomIds.request()})).collect();
        Reply::json(200, &json!({"FailedEntryCount": 0, "Entries": taken}))
    }
}
