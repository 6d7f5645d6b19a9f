//! A page of an agent's own record of a session.

use crate::error::Error;
use crate::visibility;
use contract::limits::MAX_PAGE_BYTES;
use contract::sessions::EntryPage;
use domain::access::Principal;
use domain::session::SessionAccess;
use domain::{JsonObject, SandboxId, Session, SessionId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the sandbox's head and the session.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// For which sandbox.
    pub sandbox: SandboxId,
    /// Of which session.
    pub session: SessionId,
    /// Only what comes after this entry.
    pub after: u64,
    /// How many at most.
    pub limit: usize,
}

/// The page.
pub type Outcome = EntryPage;

/// Most chunks in one query: with the smallest that is a page of 500 in three calls.
const MAX_CHUNKS: usize = 200;

/// Reads a page, oldest first. `next_after` is set whether there is more or not.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, session: id, after, limit } = command;
    let (head, session) = deps.store.sandbox_and_session(&sandbox, &id).await?;
    let head = head.ok_or_else(|| Error::no_sandbox(&sandbox))?;
    visibility::check(&principal, &head)?;
    let session = session
        .filter(|session| may_read(&principal, session.access(&head)))
        .ok_or_else(|| Error::no_session(&id))?;
    let entries = page(deps.store, &session, after, limit).await?;
    let next_after = after + entries.len() as u64;
    let has_more = next_after.saturating_add(1) < session.next;
    Ok(EntryPage { session_id: id, sandbox_id: session.sandbox, entries, next_after, has_more })
}

/// A sandbox's worker reads what its own agent wrote or is to go on with. People see all of their org, so for them any
/// sandbox of it will do: a session that has moved can still be read where it was.
fn may_read(principal: &Principal, standing: SessionAccess) -> bool {
    match principal {
        Principal::Worker { .. } => standing.may_read(),
        Principal::User { .. } | Principal::Operator => standing != SessionAccess::Foreign,
        Principal::Anonymous => false,
    }
}

/// Ends early when it grows large. One entry always fits: it came in a request of less than an answer may have.
async fn page(store: &Store, session: &Session, after: u64, limit: usize) -> Result<Vec<JsonObject>, Error> {
    let (mut entries, mut bytes): (Vec<JsonObject>, usize) = (Vec::new(), 0);
    let mut next = after.saturating_add(1);
    while next < session.next && entries.len() < limit {
        let before = next;
        for chunk in store.chunks_from(&session.id, next, (limit - entries.len()).min(MAX_CHUNKS)).await? {
            // Unpacking takes time: others get their turn between two.
            tokio::task::consume_budget().await;
            let skipped = usize::try_from(next.saturating_sub(chunk.first())).unwrap_or(usize::MAX);
            for entry in chunk.entries()?.into_iter().skip(skipped) {
                bytes += entry.text().len();
                let full = entries.len() >= limit || (bytes > MAX_PAGE_BYTES && !entries.is_empty());
                if full || next >= session.next {
                    return Ok(entries);
                }
                entries.push(entry);
                next += 1;
            }
        }
        if next == before {
            // The head says that there are entries here. A hole is our mistake, and must not look like the end.
            return Err(Error::Internal(format!("session {} has no entry {next}", session.id).into()));
        }
    }
    Ok(entries)
}
