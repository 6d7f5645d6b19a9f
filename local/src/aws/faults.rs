//! What goes wrong on purpose. No emulator throttles, conflicts or loses an answer; AWS does.

use super::connector::Reply;
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What an operation meets instead of its answer. Nothing is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another transaction holds one of the items.
    TransactionConflict,
    /// Too much, too fast.
    Throttled,
    /// The service is broken.
    ServerError,
    /// Nobody answers.
    Unreachable,
}

/// Faults that wait for their operation.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<VecDeque<(String, Fault)>>>, Arc<AtomicBool>);

impl Faults {
    /// The next call of `operation` (`TransactWriteItems`) meets this fault. Several wait in line.
    pub fn inject(&self, operation: &str, fault: Fault) {
        self.0
            .lock()
            .expect("no code panics while it holds the faults")
            .push_back((operation.to_owned(), fault));
    }

    /// How many still wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().expect("no code panics while it holds the faults").len()
    }

    /// Forgets those that still wait.
    pub fn clear(&self) {
        self.0.lock().expect("no code panics while it holds the faults").clear();
    }

    /// Whether every call waits for a moment before it is executed, and again before it is answered. Calls in this
    /// process never wait by themselves; so only with this can whoever makes them be stopped in between, or be
    /// overtaken.
    pub fn give_way(&self, every_call: bool) {
        self.1.store(every_call, Ordering::Relaxed);
    }

    pub(super) async fn moment(&self) {
        if self.1.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn next(&self, operation: &str) -> Option<Fault> {
        let mut faults = self.0.lock().expect("no code panics while it holds the faults");
        let index = faults.iter().position(|(wanted, _)| wanted == operation)?;
        faults.remove(index).map(|(_, fault)| fault)
    }
}

impl Fault {
    pub(super) fn reply(self) -> Result<Reply, ConnectorError> {
        let (status, body) = match self {
            Self::TransactionConflict => {
                let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
                let reasons = json!([{"Code": "TransactionConflict"}, {"Code": "None"}]);
                (400, json!({"__type": kind, "message": "cancelled", "CancellationReasons": reasons}))
            }
            Self::Throttled => {
                let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
                (400, json!({"__type": kind, "message": "slow down"}))
            }
            Self::ServerError => {
                let kind = "com.amazonaws.dynamodb.v20120810#InternalServerError";
                (500, json!({"__type": kind, "message": "broken"}))
            }
            Self::Unreachable => return Err(ConnectorError::io("nobody answers".into())),
        };
        Ok(Reply::json(status, &body))
    }
}
