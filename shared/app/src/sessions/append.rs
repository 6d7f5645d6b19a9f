//! Adds to an agent's own record of its session, exactly once, and answers only when it is stored.

use crate::error::Error;
use crate::{Clock, visibility};
use contract::BadInput;
use contract::sessions::{Entries, EntriesStored};
use domain::access::Principal;
use domain::session::{Plan, Refusal, plan};
use domain::{Invalid, JsonObject, SandboxId, SessionId};
use serde_json::json;
use store::Store;
use store::sessions::{AddEntries, Added};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the sandbox's head; reads and writes the session.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// By the agent of which sandbox.
    pub sandbox: SandboxId,
    /// To which session.
    pub session: SessionId,
    /// What is added.
    pub entries: Entries,
}

/// They are stored.
pub type Outcome = EntriesStored;

/// How often a race for one session is run. One worker writes to it, and sends one request after the other; only its own
/// repeats, or the two sides of a move, can meet.
const MAX_ATTEMPTS: usize = 5;
/// Most chunks in one query when entries are compared.
const MAX_COMPARED: usize = 100;

/// Entries that were stored before are compared and not stored again; what comes after them is. A repeat thus stores
/// nothing and gets the first answer.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, session: id, entries: Entries { first, entries } } = command;
    for _ in 0..MAX_ATTEMPTS {
        let (head, session) = deps.store.sandbox_and_session(&sandbox, &id).await?;
        let head = head.ok_or_else(|| Error::no_sandbox(&sandbox))?;
        visibility::check(&principal, &head)?;
        let Plan { known, after } =
            plan(session.as_ref(), &id, &head, first, entries.len() as u64, deps.clock.now())
                .map_err(|refused| refusal(&id, refused))?;
        let (stored, fresh) = entries.split_at(usize::try_from(known).unwrap_or(entries.len()));
        compare(deps.store, &id, first, stored).await?;
        let answer = EntriesStored {
            status: "stored".into(),
            session_id: id.clone(),
            first,
            entries: entries.len() as u64,
            next: first + entries.len() as u64,
            repeated: fresh.is_empty(),
        };
        if fresh.is_empty() {
            return Ok(answer);
        }
        let add =
            AddEntries { before: session.as_ref(), after: &after, first: first + known, entries: fresh };
        match deps.store.add_entries(add).await? {
            Added::Stored => return Ok(answer),
            Added::Raced => {}
            Added::TooLarge => {
                let reason = "do not compress to a size that can be stored (3.5 MB); send fewer at a time";
                return Err(BadInput::TooLarge(Invalid::new("entries", reason)).into());
            }
        }
    }
    Err(Error::Unavailable("too many writers raced for one session".into()))
}

/// What was stored before must be what is sent now, text for text, however either was cut into requests.
async fn compare(
    store: &Store,
    id: &SessionId,
    first: u64,
    mut expected: &[JsonObject],
) -> Result<(), Error> {
    let mut number = first;
    while !expected.is_empty() {
        let before = number;
        for chunk in store.chunks_from(id, number, expected.len().min(MAX_COMPARED)).await? {
            let skipped = usize::try_from(number.saturating_sub(chunk.first())).unwrap_or(usize::MAX);
            for stored in chunk.entries()?.iter().skip(skipped) {
                let Some((next, rest)) = expected.split_first() else { return Ok(()) };
                if next != stored {
                    return Err(Error::conflict(
                        "entries_changed",
                        format!(
                            "Entry {number} of session {id} is stored and says something else; nothing was stored."
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

fn refusal(id: &SessionId, refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotFound => Error::no_session(id),
        Refusal::Transition => Error::conflict(
            "session_moved",
            format!("Another sandbox goes on with session {id}; this one can add nothing to it."),
            json!({}),
        ),
        Refusal::Gap { expected } => Error::conflict(
            "entries_gap",
            format!("Entry {expected} of session {id} must come first; nothing of these was stored."),
            json!({"expected_first": expected}),
        ),
    }
}
