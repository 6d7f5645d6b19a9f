//! Keeping an agent's own record of its session, and reading it back.

use crate::call::{Caller, Refused};
use contract::sessions::{EntriesStored, EntryPage};
use domain::{JsonObject, SandboxId, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The sessions of a sandbox's agent.
#[derive(Debug, Clone)]
pub struct Transcripts {
    caller: Caller,
    deadline: Duration,
    url: String,
}

#[derive(Serialize)]
struct Entries<'a> {
    first: u64,
    entries: &'a [Box<RawValue>],
}

impl Transcripts {
    /// Of a sandbox at a plane. A request without an answer after `deadline` is repeated; one may carry 4 MB.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/sessions");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// Adds entries, the first of which has the number `first`, again and again until they are stored: whatever happens
    /// on the way, each is stored once. At most 500 and 4 MB at a time.
    pub async fn append(
        &self,
        session: &SessionId,
        first: u64,
        entries: &[Box<RawValue>],
    ) -> Result<EntriesStored, Refused> {
        let url = format!("{}/{session}/entries", self.url);
        let body = Entries { first, entries };
        self.caller.ask(self.deadline, |http| http.post(&url).json(&body)).await
    }

    /// Up to 500 entries after the one with this number.
    pub async fn page(&self, session: &SessionId, after: u64) -> Result<EntryPage, Refused> {
        let url = format!("{}/{session}/entries?after={after}&limit=500", self.url);
        self.caller.ask(self.deadline, |http| http.get(&url)).await
    }

    /// All of a session, as the agent wrote it.
    pub async fn read(&self, session: &SessionId) -> Result<Vec<JsonObject>, Refused> {
        let (mut entries, mut after) = (Vec::new(), 0);
        loop {
            let page = self.page(session, after).await?;
            entries.extend(page.entries);
            after = page.next_after;
            if !page.has_more {
                return Ok(entries);
            }
        }
    }
}
