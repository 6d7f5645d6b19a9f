//! Reading back an agent's own record of its session.

use crate::call::{Caller, Refused};
use contract::sessions::EntryPage;
use domain::{SandboxId, SessionId};
use std::time::Duration;

/// The sessions of a sandbox's agent.
#[derive(Debug, Clone)]
pub struct Transcripts {
    caller: Caller,
    deadline: Duration,
    url: String,
}

impl Transcripts {
    /// Of a sandbox at a plane. A request without an answer after `deadline` is repeated; one may carry 3 MB.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/sessions");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// Up to 500 entries after the one with this number.
    pub async fn page(&self, session: &SessionId, after: u64) -> Result<EntryPage, Refused> {
        let url = format!("{}/{session}/entries?after={after}&limit=500", self.url);
        self.caller.ask(self.deadline, |http| http.get(&url)).await
    }
}
