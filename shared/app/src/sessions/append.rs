//! Appends entries to the session transcript of an agent, exactly once. They are stored when the response is sent.

use crate::error::Error;
use crate::quotas;
use crate::{Clock, visibility};
use contract::BadInput;
use contract::ProblemCode;
use contract::sessions::{Entries, EntriesStored};
use domain::access::Principal;
use domain::quota::{Amount, QuotaOwner};
use domain::session::{Plan, Refusal, plan};
use domain::{Invalid, JsonObject, SandboxId, SessionId};
use serde_json::json;
use store::Store;
use store::sessions::{AddEntries, Added};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub quotas: quotas::Deps<'a>,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub session: SessionId,
    pub entries: Entries,
    /// Size of the request.
    pub body_bytes: u64,
}

pub type Outcome = EntriesStored;

/// Maximum number of attempts after conflicts. A session has one writer, so only its own retries, or the old and the
/// new sandbox of a resumed session, can conflict.
const MAX_ATTEMPTS: usize = 5;
/// Maximum number of chunks in one query when entries are compared.
const MAX_CHUNKS: usize = 100;

/// Idempotent: entries that are already stored are compared with the request, and only those behind them are stored.
/// A retry stores nothing and gets the first response.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, session: id, entries, body_bytes } = command;
    let Entries { first, entries } = entries;
    let mut is_charged = false;
    for _ in 0..MAX_ATTEMPTS {
        let (sandbox, session) = deps.store.sandbox_and_session(&sandbox_id, &id).await?;
        let sandbox = sandbox.ok_or_else(|| Error::no_sandbox(&sandbox_id))?;
        let now = deps.clock.now();
        visibility::check_report(&principal, &sandbox, now)?;
        let Plan { known, after } = plan(session.as_ref(), &id, &sandbox, first, entries.len() as u64, now)
            .map_err(|refusal| conflict(&id, refusal))?;
        let (stored, new) = entries.split_at(usize::try_from(known).unwrap_or(entries.len()));
        compare(deps.store, &id, first, stored).await?;
        let response = EntriesStored {
            status: "stored".into(),
            session_id: id.clone(),
            first,
            entries: entries.len() as u64,
            next: first + entries.len() as u64,
            repeated: new.is_empty(),
        };
        if new.is_empty() {
            return Ok(response);
        }
        if !is_charged {
            let mut owners = QuotaOwner::of(&principal);
            owners.push(QuotaOwner::Org(sandbox.org.clone()));
            quotas::charge(deps.quotas, &owners, Amount::new(new.len() as u64, body_bytes)).await?;
            is_charged = true;
        }
        let add = AddEntries { before: session.as_ref(), after: &after, first: first + known, entries: new };
        match deps.store.add_entries(add).await? {
            Added::Stored => return Ok(response),
            Added::Conflict => {}
            Added::TooLarge => {
                let reason = "do not compress to a size that can be stored (3.5 MB); send fewer at a time";
                return Err(BadInput::TooLarge(Invalid::new("entries", reason)).into());
            }
        }
    }
    Err(Error::Unavailable("too many concurrent writers of one session".into()))
}

/// The stored entries must equal those of the request, however they were split into requests.
async fn compare(
    store: &Store,
    id: &SessionId,
    first: u64,
    mut expected: &[JsonObject],
) -> Result<(), Error> {
    let mut number = first;
    while !expected.is_empty() {
        let before = number;
        for chunk in store.chunks_from(id, number, expected.len().min(MAX_CHUNKS)).await? {
            let skipped = usize::try_from(number.saturating_sub(chunk.first())).unwrap_or(usize::MAX);
            for stored in chunk.entries()?.iter().skip(skipped) {
                let Some((next, rest)) = expected.split_first() else { return Ok(()) };
                if next != stored {
                    return Err(Error::conflict(
                        ProblemCode::EntriesChanged,
                        format!(
                            "Entry {number} of session {id} is already stored with different content; nothing was stored."
                        ),
                        json!({"number": number}),
                    ));
                }
                (expected, number) = (rest, number + 1);
            }
        }
        if number == before {
            return Err(Error::Internal(format!("session {id} has no entry {number}").into()));
        }
    }
    Ok(())
}

fn conflict(id: &SessionId, refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotFound => Error::no_session(id),
        Refusal::Superseded => Error::conflict(
            ProblemCode::SessionSuperseded,
            format!("Another sandbox has resumed session {id}; this sandbox can no longer append to it."),
            json!({}),
        ),
        Refusal::Gap { expected } => Error::conflict(
            ProblemCode::EntriesGap,
            format!("Expected entry {expected} of session {id} first; nothing was stored."),
            json!({"expected_first": expected}),
        ),
    }
}
