//! Gives free slots to the tasks that are ready: each gets a sandbox, on paper. Whoever tends that makes it.

use crate::error::Error;
use crate::orchestration::Deps;
use crate::{ids, race, telling, work};
use contract::jobs::Job;
use domain::attempt::{Assignment, Stage};
use domain::breaker::Allow;
use domain::score::{rank, score};
use domain::task::moves::Told;
use domain::{Head, OrgId, Timestamp};
use serde_json::json;
use std::collections::HashSet;
use store::commit::{Change, Commit, Committed};
use store::queue::{Candidate, Slots, Turn};

/// Whose tasks.
pub type Command = OrgId;

/// How many tasks were claimed.
pub type Outcome = usize;

/// Most that are claimed in one go: the rest is another job's, so that none takes long.
const AT_ONCE: usize = 25;
/// How many of each project are looked at. They are scored exactly; behind them comes nobody who is better by more than
/// an hour of waiting.
const WINDOW: usize = 10;
/// At most so many looks are taken at the queue for one claim, those at projects without room aside. The next claim
/// begins where this one ended, so that no project is out of sight for long.
const MAX_LOOKS: usize = 8;

/// One claim in so many goes by rank alone.
const IN_TURN: i64 = 8;

/// A repeat claims what is still to be claimed. Several at once never claim one task twice: each claim is a transaction
/// on the task, its place in the queue and the slots.
pub async fn run(deps: Deps<'_>, org: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    let mut claimed = 0;
    while claimed < AT_ONCE {
        let slots = deps.store.slots(&org).await?;
        if slots.running >= deps.orchestration.limits.org {
            return Ok(claimed);
        }
        let now = deps.clock.now();
        let seen = look(deps, &org, &slots, now).await?;
        if seen.candidates.is_empty() {
            return Ok(claimed);
        }
        match claim_best(deps, &org, seen, now).await? {
            Claim::Made => {
                claimed += 1;
                race = race::Race::new(deps.clock);
            }
            Claim::Lost => race.lost().await?,
            Claim::Nobody => return Ok(claimed),
        }
    }
    work::ask(deps.work, &Job::Dispatch { org }).await;
    Ok(claimed)
}

enum Claim {
    Made,
    /// Somebody else was faster.
    Lost,
    /// None of them can be claimed now.
    Nobody,
}

/// A look at the queue.
struct Seen {
    /// Those that may be claimed, the most urgent first.
    candidates: Vec<Candidate>,
    /// Where the look ended, if there is more.
    turn: Option<Turn>,
}

async fn look(deps: Deps<'_>, org: &OrgId, slots: &Slots, now: Timestamp) -> Result<Seen, Error> {
    let weights = &deps.orchestration.weights;
    #[expect(clippy::cast_possible_truncation, reason = "minutes")]
    let near = now.plus_secs(weights.deadline_near_secs as i64);
    let mut found = deps.store.due_candidates(org, near, WINDOW).await?.candidates;
    found.retain(|candidate| has_room(deps, slots, candidate));
    let turn = first_of_projects(deps, org, slots, &mut found).await?;
    let mut known = HashSet::new();
    found.retain(|candidate| known.insert(candidate.id.clone()));
    let mut scored: Vec<(f64, Candidate)> =
        found.into_iter().map(|candidate| (score(&candidate.standing(), now, weights), candidate)).collect();
    let by_rank = |one: &Candidate, other: &Candidate| {
        rank(&one.standing(), weights).cmp(&rank(&other.standing(), weights))
    };
    // The score has a ceiling for those that wait, and a rank has none: now and then whoever is first by rank goes
    // first, so that nobody waits for ever behind tasks that are always more urgent.
    let in_turn = now.as_micros().rem_euclid(IN_TURN) == 0;
    scored.sort_by(|(one, a), (other, b)| match in_turn {
        true => by_rank(a, b),
        false => other.total_cmp(one).then_with(|| by_rank(a, b)),
    });
    Ok(Seen { candidates: scored.into_iter().map(|(_, candidate)| candidate).collect(), turn })
}

fn has_room(deps: Deps<'_>, slots: &Slots, candidate: &Candidate) -> bool {
    let Some(project) = &candidate.project else { return true };
    slots.projects.get(project).copied().unwrap_or(0) < deps.orchestration.limits.project
}

/// Adds the first of each project that has room, from where the last look ended; where this one ends, if there is more.
async fn first_of_projects(
    deps: Deps<'_>,
    org: &OrgId,
    slots: &Slots,
    found: &mut Vec<Candidate>,
) -> Result<Option<Turn>, Error> {
    let (mut turn, mut looks) = (slots.turn.clone(), 0);
    // Whoever does not begin at the start comes there after the end, and ends where they began.
    let mut ahead = slots.turn.is_some();
    while looks < MAX_LOOKS {
        let page = deps.store.candidates(org, turn.as_ref(), WINDOW).await?;
        let last = page.candidates.last().map(|last| Turn::behind(last.project.as_ref()));
        let before = found.len();
        found.extend(page.candidates.into_iter().filter(|candidate| has_room(deps, slots, candidate)));
        looks += usize::from(found.len() > before);
        let around = !ahead && slots.turn.is_some() && last >= slots.turn;
        match last {
            _ if around => return Ok(None),
            Some(last) if page.more => turn = Some(last),
            _ if ahead => (turn, ahead) = (None, false),
            _ => return Ok(None),
        }
    }
    Ok(turn)
}

async fn claim_best(
    deps: Deps<'_>,
    org: &OrgId,
    seen: Seen,
    now: Timestamp,
) -> Result<Claim, Error> {
    let mut closed = HashSet::new();
    for candidate in seen.candidates {
        let Some(task) = deps.store.task(&candidate.id).await? else { continue };
        let provider = task.execution.provider.clone();
        let provider = provider.unwrap_or_else(|| deps.orchestration.default_provider.clone());
        if closed.contains(&provider) {
            continue;
        }
        if let Allow::No { .. } = deps.store.breaker(&provider).await?.allows(now) {
            closed.insert(provider);
            continue;
        }
        let sandbox = ids::sandbox_for(&task);
        let Some(moved) = task.claim(sandbox.clone(), now) else { return Ok(Claim::Lost) };
        let (ticket, attempt) = (task.ticket.clone(), moved.task.attempt);
        let assignment = Assignment { task: task.id.clone(), ticket, attempt, provider };
        let data = json!({
            "sandbox_id": sandbox, "task_id": task.id, "ticket_id": task.ticket, "attempt": attempt,
            "provider": assignment.provider,
        });
        let told = Told { event_type: Stage::Recorded.event(), data: domain::JsonObject::of(&data) };
        let events = vec![telling::event_of(told)];
        let name: String = task.title.chars().take(MAX_NAME_CHARS).collect();
        let head = Head::assigned(sandbox.clone(), org.clone(), name, assignment, now);
        let mut head = head.telling(&events);
        head.version = 1;
        let mut commit = Commit::new(now);
        (commit.limits, commit.turn) = (deps.orchestration.limits, seen.turn);
        commit.tasks.push(telling::task_change(&task, moved));
        commit.sandboxes.push(Change { before: None, after: head, events });
        return match deps.store.commit(commit).await? {
            Committed::Done(_) => {
                tracing::info!(task.id = %task.id, sandbox.id = %sandbox, "Claimed task {} for sandbox {sandbox}", task.id);
                work::ask(deps.work, &Job::TendSandbox { sandbox_id: sandbox }).await;
                Ok(Claim::Made)
            }
            Committed::Conflict => Ok(Claim::Lost),
        };
    }
    Ok(Claim::Nobody)
}

/// A sandbox is called as its task, at most so long.
const MAX_NAME_CHARS: usize = 200;
