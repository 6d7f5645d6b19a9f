//! A look at an org's queue: which of the ready tasks may be claimed now, the most urgent first.

use crate::error::Error;
use crate::orchestration::Deps;
use domain::breaker::Allow;
use domain::score::{rank, score};
use domain::{OrgId, Timestamp};
use std::collections::{HashMap, HashSet};
use store::queue::{Candidate, Cursor, Slots};

/// How many of each project are looked at. They are scored exactly; behind them comes nobody who is better by more than
/// an hour of waiting.
const WINDOW: usize = 10;
/// At most so many pages are looked at for one claim, those aside on which nobody can be claimed: a full project and a
/// provider that is down must not hide the others. The next claim begins where this one ended, so that no project is out
/// of sight for long.
const MAX_LOOKS: usize = 8;
/// One claim in so many goes by rank alone.
const IN_TURN: u64 = 8;

/// What was seen.
pub(super) struct Seen {
    /// Those that may be claimed, the most urgent first.
    pub candidates: Vec<Candidate>,
    /// Where the look ended, if there is more.
    pub turn: Option<Cursor>,
}

/// Looks.
pub(super) async fn look(deps: Deps<'_>, org: &OrgId, slots: &Slots, now: Timestamp) -> Result<Seen, Error> {
    let mut look = Look { deps, org, slots, now, closed: HashMap::new() };
    let mut found = look.due().await?;
    let turn = look.first_of_projects(&mut found).await?;
    let mut known = HashSet::new();
    found.retain(|candidate| known.insert(candidate.id.clone()));
    Ok(Seen { candidates: look.sorted(found), turn })
}

struct Look<'a> {
    deps: Deps<'a>,
    org: &'a OrgId,
    slots: &'a Slots,
    now: Timestamp,
    /// Providers, and whether they are left alone for now.
    closed: HashMap<String, bool>,
}

impl Look<'_> {
    /// Those whose deadline is near: there, a rank says too little.
    async fn due(&mut self) -> Result<Vec<Candidate>, Error> {
        #[expect(clippy::cast_possible_truncation, reason = "minutes")]
        let near = self.now.plus_secs(self.deps.orchestration.weights.deadline_near_secs as i64);
        let (mut found, mut turn) = (Vec::new(), None);
        for _ in 0..MAX_LOOKS {
            let page = self.deps.store.due_candidates(self.org, turn.as_ref(), near, WINDOW).await?;
            found.extend(self.claimable(page.candidates).await?);
            turn = page.next;
            if turn.is_none() || found.len() >= WINDOW {
                break;
            }
        }
        Ok(found)
    }

    /// Adds the first of each project, from where the last look ended; where this one ends, if there is more.
    async fn first_of_projects(&mut self, found: &mut Vec<Candidate>) -> Result<Option<Cursor>, Error> {
        let (mut turn, mut looks) = (self.slots.turn.clone(), 0);
        // Whoever does not begin at the start comes there after the end, and ends where they began.
        let mut behind_the_start = turn.is_some();
        while looks < MAX_LOOKS {
            let page = self.deps.store.candidates(self.org, turn.as_ref(), WINDOW).await?;
            let claimable = self.claimable(page.candidates).await?;
            looks += usize::from(!claimable.is_empty());
            found.extend(claimable);
            match page.next {
                Some(next) if behind_the_start || self.slots.turn.is_none() => turn = Some(next),
                Some(next) if Some(&next) < self.slots.turn.as_ref() => turn = Some(next),
                None if behind_the_start => (turn, behind_the_start) = (None, false),
                _ => return Ok(None),
            }
        }
        Ok(turn)
    }

    async fn claimable(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Error> {
        let mut claimable = Vec::new();
        for candidate in candidates {
            if self.has_room(&candidate) && self.has_maker(&candidate).await? {
                claimable.push(candidate);
            }
        }
        Ok(claimable)
    }

    fn has_room(&self, candidate: &Candidate) -> bool {
        let Some(project) = &candidate.project else { return true };
        self.slots.projects.get(project).copied().unwrap_or(0) < self.deps.orchestration.limits.project
    }

    /// Whether whoever is to make its sandbox is not left alone for now.
    async fn has_maker(&mut self, candidate: &Candidate) -> Result<bool, Error> {
        let provider = candidate.provider.as_ref().unwrap_or(&self.deps.orchestration.default_provider);
        if let Some(closed) = self.closed.get(provider) {
            return Ok(!closed);
        }
        let closed = matches!(self.deps.store.breaker(provider).await?.allows(self.now), Allow::No { .. });
        self.closed.insert(provider.clone(), closed);
        Ok(!closed)
    }

    fn sorted(&self, found: Vec<Candidate>) -> Vec<Candidate> {
        let (now, weights) = (self.now, &self.deps.orchestration.weights);
        let by_rank = |one: &Candidate, other: &Candidate| {
            rank(&one.score_inputs(), weights).cmp(&rank(&other.score_inputs(), weights))
        };
        // The score has a ceiling for those that wait, and a rank has none: now and then whoever is first by rank goes
        // first, so that nobody waits for ever behind tasks that are always more urgent.
        let in_turn = self.slots.claims % IN_TURN == IN_TURN - 1;
        let scored =
            found.into_iter().map(|candidate| (score(&candidate.score_inputs(), now, weights), candidate));
        let mut scored: Vec<(f64, Candidate)> = scored.collect();
        scored.sort_by(|(one, a), (other, b)| match in_turn {
            true => by_rank(a, b),
            false => other.total_cmp(one).then_with(|| by_rank(a, b)),
        });
        scored.into_iter().map(|(_, candidate)| candidate).collect()
    }
}
