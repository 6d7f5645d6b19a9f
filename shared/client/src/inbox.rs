//! Pulls an agent's messages and acknowledges them.

use crate::call::{Caller, Refused};
use contract::messages::{Acknowledged, Pulled};
use domain::message::State;
use domain::{MessageId, SandboxId};
use serde::Serialize;
use std::time::Duration;

/// The mailbox of a sandbox. Delivery is at least once: deduplicate by message id.
#[derive(Debug, Clone)]
pub struct Inbox {
    caller: Caller,
    deadline: Duration,
    url: String,
    pub pull: Pull,
}

/// Parameters of a pull.
#[derive(Debug, Clone)]
pub struct Pull {
    /// Long-poll timeout in seconds, at most 20.
    pub wait_secs: u64,
    /// At most 10.
    pub max_messages: usize,
    /// Visibility timeout: an unacknowledged message is delivered again after this many seconds.
    pub visibility_secs: u64,
    /// Messages that were pulled before and are not acknowledged yet: they are not delivered again.
    pub holding: Vec<MessageId>,
}

impl Pull {
    pub(crate) fn query(&self) -> String {
        let Self { wait_secs, max_messages, visibility_secs, holding } = self;
        let mut query =
            format!("ack=manual&wait={wait_secs}&max={max_messages}&visibility={visibility_secs}");
        if !holding.is_empty() {
            let ids: Vec<&str> = holding.iter().map(MessageId::as_str).collect();
            query.push_str(&format!("&holding={}", ids.join(",")));
        }
        query
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct ReceiptIn {
    pub message_id: MessageId,
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Serialize)]
struct Receipts<'a> {
    receipts: &'a [ReceiptIn],
}

impl Inbox {
    /// Each attempt times out after `deadline` and is retried. A long poll gets its wait on top.
    pub fn new(
        plane: &str,
        sandbox: &SandboxId,
        token: Option<String>,
        pull: Pull,
        deadline: Duration,
    ) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/messages");
        Self { caller: Caller::new(token), deadline, url, pull }
    }

    /// Pulls the next messages; none if none arrived during the long poll.
    pub async fn next(&self) -> Result<Pulled, Refused> {
        let url = format!("{}?{}", self.url, self.pull.query());
        let deadline = self.deadline + Duration::from_secs(self.pull.wait_secs);
        self.caller.request_with_retries(deadline, |http| http.get(&url)).await
    }

    /// Sends receipts and retries until the plane has stored them.
    pub async fn acknowledge(&self, receipts: &[ReceiptIn]) -> Result<Acknowledged, Refused> {
        let url = format!("{}/ack", self.url);
        self.caller
            .request_with_retries(self.deadline, |http| http.post(&url).json(&Receipts { receipts }))
            .await
    }
}
