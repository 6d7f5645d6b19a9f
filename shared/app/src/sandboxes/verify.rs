//! Verifies that the stored log of a sandbox is the one that was written: each segment must continue the running hash.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use contract::sandboxes::{LogProblem, LogVerification, VerificationQuery};
use domain::access::Principal;
use domain::{Entity, Invalid, LogHash, Sandbox, SandboxId};
use store::Store;
use store::log_hash::BodyDigest;
use store::segments::Segment;

/// Segments for one request. A query returns at most 1 MB of them.
const MAX_SEGMENTS: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub query: VerificationQuery,
}

pub type Outcome = LogVerification;

/// Verifies the next segments. A long log takes several requests, each of which continues after the previous one.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, query: VerificationQuery { after_seq, to_seq } } = command;
    let sandbox = visible_sandbox(deps.store, &principal, &sandbox).await?;
    let entity = Entity::Sandbox(sandbox.id.clone());
    let end = to_seq.map_or(sandbox.seq, |to_seq| to_seq.min(sandbox.seq));
    let mut chain = Chain::after(deps.store, &entity, after_seq).await?;
    for segment in deps.store.segments_from(&entity, after_seq + 1, MAX_SEGMENTS).await? {
        // Events that arrived after the sandbox was read are not covered by its hash.
        if chain.seq >= end || chain.problem.is_some() {
            break;
        }
        // Hashing is CPU-bound: yield between segments.
        tokio::task::consume_budget().await;
        chain.verify(deps.store, &sandbox.id, &segment).await?;
    }
    let advanced = chain.seq > after_seq;
    if chain.problem.is_none() && chain.seq < end && !advanced {
        chain.fail(chain.seq + 1, MISSING);
    }
    if chain.problem.is_none() && chain.seq >= sandbox.seq {
        chain.compare_with(&sandbox);
    }
    Ok(LogVerification {
        last_seq: sandbox.seq,
        verified_seq: chain.seq,
        log_hash: chain.hash,
        unhashed_events: chain.unhashed,
        has_more: chain.problem.is_none() && chain.seq < end,
        problem: chain.problem,
        sandbox_id: sandbox.id,
    })
}

const MISSING: &str = "is missing in the log";
const UNREADABLE: &str = "was changed: it cannot be read";

/// What was verified so far.
struct Chain {
    seq: u64,
    /// The running hash at `seq`. `None` before the first segment that has one.
    hash: Option<LogHash>,
    unhashed: u64,
    problem: Option<LogProblem>,
}

impl Chain {
    /// Continues after a segment that an earlier request verified.
    async fn after(store: &Store, entity: &Entity, seq: u64) -> Result<Self, Error> {
        let mut hash = None;
        if seq > 0 {
            let segment = store.segments_to(entity, seq, 1).await?.pop();
            let Some(segment) = segment.filter(|segment| segment.last_seq().is_ok_and(|last| last == seq))
            else {
                let rule = "must be 0 or the `verified_seq` of an earlier response";
                return Err(Invalid::new("after_seq", rule).into());
            };
            hash = segment.log_hash()?;
        }
        Ok(Self { seq, hash, unhashed: 0, problem: None })
    }

    async fn verify(&mut self, store: &Store, id: &SandboxId, segment: &Segment) -> Result<(), Error> {
        let next = self.seq + 1;
        let (Ok(first), Ok(last), Ok(stored)) = (segment.first_seq(), segment.last_seq(), segment.log_hash())
        else {
            self.fail(next, UNREADABLE);
            return Ok(());
        };
        if first != next {
            self.fail(next, MISSING);
            return Ok(());
        }
        let Some(bodies) = body_digests(store, id, segment).await? else {
            self.fail(next, UNREADABLE);
            return Ok(());
        };
        match (stored, self.hash) {
            (Some(stored), previous) => {
                let previous = previous.unwrap_or(LogHash::EMPTY);
                // A segment that lacks an attribute has no hash.
                if segment.computed_hash(previous, &bodies).ok() != Some(stored) {
                    self.fail(next, "or an event stored with it was changed: its hash does not match");
                    return Ok(());
                }
                self.hash = Some(stored);
            }
            (None, Some(_)) => {
                self.fail(next, "was stored without a hash, but events before it have one");
                return Ok(());
            }
            // Stored before logs had hashes.
            (None, None) => self.unhashed += last.saturating_sub(self.seq),
        }
        self.seq = last;
        Ok(())
    }

    /// At the end of the log, which may not be shorter or different from what the sandbox states.
    fn compare_with(&mut self, sandbox: &Sandbox) {
        if self.hash != sandbox.log_hash {
            self.fail(self.seq.max(1), "is the end of the log, but its hash is not that of the sandbox");
        }
    }

    fn fail(&mut self, seq: u64, reason: &str) {
        self.problem = Some(LogProblem { seq, reason: format!("Event {seq} {reason}.") });
    }
}

/// Digests of the large data of a segment's events. `None` if the events cannot be read.
async fn body_digests(
    store: &Store,
    id: &SandboxId,
    segment: &Segment,
) -> Result<Option<Vec<BodyDigest>>, Error> {
    let Ok(events) = segment.events() else { return Ok(None) };
    let mut digests = Vec::new();
    for seq in events.iter().filter(|event| event.body.is_some()).filter_map(|event| event.seq) {
        digests.push(store.body_digest(id, seq).await?);
    }
    Ok(Some(digests))
}
