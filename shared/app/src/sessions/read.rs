//! Returns a page of the session transcript of an agent.

use crate::error::Error;
use crate::visibility;
use contract::limits::MAX_PAGE_BYTES;
use contract::sessions::EntryPage;
use domain::access::Principal;
use domain::session::SessionAccess;
use domain::{JsonObject, SandboxId, Session, SessionId};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub session: SessionId,
    /// Only entries after this number.
    pub after: u64,
    pub limit: usize,
}

pub type Outcome = EntryPage;

/// Maximum number of chunks in one query. With the smallest chunks, a page of 500 entries takes three queries.
const MAX_CHUNKS: usize = 200;

/// Oldest first. `next_after` is set on the last page too, so that a reader can poll for more.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, session: id, after, limit } = command;
    let (sandbox, session) = deps.store.sandbox_and_session(&sandbox_id, &id).await?;
    let sandbox = sandbox.ok_or_else(|| Error::no_sandbox(&sandbox_id))?;
    visibility::check(&principal, &sandbox)?;
    let session = session
        .filter(|session| may_read(&principal, session.access(&sandbox)))
        .ok_or_else(|| Error::no_session(&id))?;
    let entries = page(deps.store, &session, after, limit).await?;
    let next_after = after + entries.len() as u64;
    let has_more = next_after.saturating_add(1) < session.next;
    Ok(EntryPage { session_id: id, sandbox_id: session.sandbox, entries, next_after, has_more })
}

/// A worker reads the sessions that its own agent wrote or resumes. Users may read all sessions of their org, through
/// any of its sandboxes: a session that another sandbox has resumed can still be read through the old one.
fn may_read(principal: &Principal, access: SessionAccess) -> bool {
    match principal {
        Principal::Worker { .. } => access.may_read(),
        Principal::User { .. } | Principal::Operator { .. } => access != SessionAccess::OtherOrg,
        Principal::Anonymous => false,
    }
}

/// Stops early when the page grows large. One entry always fits, because requests are smaller than responses.
async fn page(store: &Store, session: &Session, after: u64, limit: usize) -> Result<Vec<JsonObject>, Error> {
    let (mut entries, mut bytes): (Vec<JsonObject>, usize) = (Vec::new(), 0);
    let mut next = after.saturating_add(1);
    while next < session.next && entries.len() < limit {
        let before = next;
        for chunk in store.chunks_from(&session.id, next, (limit - entries.len()).min(MAX_CHUNKS)).await? {
            // Unpacking is CPU-bound: yield between chunks.
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
            // A gap is a bug, and must not look like the end of the session.
            return Err(Error::Internal(format!("session {} has no entry {next}", session.id).into()));
        }
    }
    Ok(entries)
}
