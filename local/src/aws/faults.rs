//! Fault injection: throttling, conflicts and lost responses, which AWS has and emulators lack.

use super::connector::Reply;
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A failure that replaces the execution of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    TransactionConflict,
    Throttled,
    ServerError,
    /// Connection failure.
    Unreachable,
}

/// Queued faults.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    queue: Arc<Mutex<VecDeque<(String, Fault)>>>,
    outages: Arc<Mutex<BTreeSet<String>>>,
    yields: Arc<AtomicBool>,
}

impl Faults {
    /// The next call of `operation` (`TransactWriteItems`) fails with this fault. Several faults queue up.
    pub fn inject(&self, operation: &str, fault: Fault) {
        self.queue
            .lock()
            .expect("no code panics while it holds the faults")
            .push_back((operation.to_owned(), fault));
    }

    /// From now on a service (`AmazonSQS`) cannot be reached.
    pub fn begin_outage(&self, service: &str) {
        self.outages.lock().expect("no code panics while it holds the faults").insert(service.to_owned());
    }

    pub fn end_outage(&self, service: &str) {
        self.outages.lock().expect("no code panics while it holds the faults").remove(service);
    }

    /// Number of faults that no call has met yet.
    pub fn pending(&self) -> usize {
        self.queue.lock().expect("no code panics while it holds the faults").len()
    }

    pub fn clear(&self) {
        self.queue.lock().expect("no code panics while it holds the faults").clear();
    }

    /// Whether every call yields to other tasks before it is executed and before it returns. In-process calls never wait, so
    /// only this lets a test cancel or overtake their caller in between.
    pub fn yield_between_calls(&self, yields: bool) {
        self.yields.store(yields, Ordering::Relaxed);
    }

    pub(super) async fn maybe_yield(&self) {
        if self.yields.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn next(&self, service: &str, operation: &str) -> Option<Fault> {
        if self.outages.lock().expect("no code panics while it holds the faults").contains(service) {
            return Some(Fault::Unreachable);
        }
        let mut faults = self.queue.lock().expect("no code panics while it holds the faults");
        let index = faults.iter().position(|(name, _)| name == operation)?;
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
            Self::Unreachable => return Err(ConnectorError::io("injected connection failure".into())),
        };
        Ok(Reply::json(status, &body))
    }
}
