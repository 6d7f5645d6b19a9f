//! EventBridge. There are no rules here, because the same events arrive on the sockets. It keeps the latest events for
//! inspection.

use super::connector::{Reply, validation_error};
use app::IdSource;
use app::ids::RandomIds;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;

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
            return validation_error(&format!("{operation} is not supported by the in-process AWS"));
        };
        let mut kept = self.0.lock().expect("no code panics while it holds the bus");
        kept.extend(entries.iter().cloned());
        let surplus = kept.len().saturating_sub(MAX_KEPT);
        kept.drain(..surplus);
        let taken: Vec<Value> = entries.iter().map(|_| json!({"EventId": RandomIds.request()})).collect();
        Reply::json(200, &json!({"FailedEntryCount": 0, "Entries": taken}))
    }
}
