//! Reads an agent's session transcript.

use crate::call::{Caller, Refused};
use contract::sessions::EntryPage;
use domain::{SandboxId, SessionId};
use std::time::Duration;

/// The session transcripts of a sandbox's agent.
#[derive(Debug, Clone)]
pub struct Transcripts {
    caller: Caller,
    deadline: Duration,
    url: String,
}

impl Transcripts {
    /// Each attempt times out after `deadline` and is retried. A page may be 3 MB.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/sessions");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// Reads up to 500 entries after entry number `after`.
    pub async fn page(&self, session: &SessionId, after: u64) -> Result<EntryPage, Refused> {
        let url = format!("{}/{session}/entries?after={after}&limit=500", self.url);
        self.caller.request_with_retries(self.deadline, |http| http.get(&url)).await
    }
}
