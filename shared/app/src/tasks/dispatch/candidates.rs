//! Scans an org's queue for the ready tasks that may be claimed now, most urgent first.

use crate::error::Error;
use crate::orchestration::Deps;
use domain::breaker::Allow;
use domain::score::{rank, score};
use domain::{OrgId, Timestamp};
use std::collections::{HashMap, HashSet};
use store::page::Cursor;
use store::task_queue::{Candidate, Slots};

/// Number of tasks of each project to score. They are sorted by rank, so no task behind them would score better by
/// more than an hour of waiting.
const WINDOW: usize = 10;
/// Maximum number of pages to scan for one claim. Pages without a claimable task do not count, so that a full project
/// or an unavailable provider does not hide other tasks. The next claim continues where this one stopped, so every
/// project is scanned regularly.
const MAX_PAGES: usize = 8;
/// Every n-th claim sorts by rank alone.
const RANK_ONLY_INTERVAL: u64 = 8;

pub(super) struct QueueScan {
    /// Claimable tasks, most urgent first.
    pub candidates: Vec<Candidate>,
    /// Where the scan stopped, unless it covered the whole queue.
    pub cursor: Option<Cursor>,
}

pub(super) async fn scan(
    deps: Deps<'_>,
    org: &OrgId,
    slots: &Slots,
    now: Timestamp,
) -> Result<QueueScan, Error> {
    let mut scanner = Scanner { deps, org, slots, now, unavailable: HashMap::new() };
    let mut found = scanner.due().await?;
    let cursor = scanner.first_of_projects(&mut found).await?;
    let mut known = HashSet::new();
    found.retain(|candidate| known.insert(candidate.id.clone()));
    Ok(QueueScan { candidates: scanner.sorted(found), cursor })
}

struct Scanner<'a> {
    deps: Deps<'a>,
    org: &'a OrgId,
    slots: &'a Slots,
    now: Timestamp,
    /// Whether the breaker of a provider is open.
    unavailable: HashMap<String, bool>,
}

impl Scanner<'_> {
    /// Tasks whose deadline is near. Their rank does not reflect it.
    async fn due(&mut self) -> Result<Vec<Candidate>, Error> {
        #[expect(clippy::cast_possible_truncation, reason = "minutes")]
        let near = self.now.plus_secs(self.deps.orchestration.weights.deadline_near_secs as i64);
        let (mut found, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = self.deps.store.due_candidates(self.org, cursor.as_ref(), near, WINDOW).await?;
            found.extend(self.claimable(page.items).await?);
            cursor = page.next;
            if cursor.is_none() || found.len() >= WINDOW {
                break;
            }
        }
        Ok(found)
    }

    /// Adds the first tasks of each project, from where the last scan stopped. Returns where this scan stopped,
    /// unless it covered the whole queue.
    async fn first_of_projects(&mut self, found: &mut Vec<Candidate>) -> Result<Option<Cursor>, Error> {
        let (mut cursor, mut pages) = (self.slots.cursor.clone(), 0);
        // A scan that does not start at the beginning wraps around, and ends where it started.
        let mut before_wrap = cursor.is_some();
        while pages < MAX_PAGES {
            let page = self.deps.store.candidates(self.org, cursor.as_ref(), WINDOW).await?;
            let claimable = self.claimable(page.items).await?;
            pages += usize::from(!claimable.is_empty());
            found.extend(claimable);
            match page.next {
                Some(next) if before_wrap || self.slots.cursor.is_none() => cursor = Some(next),
                Some(next) if Some(&next) < self.slots.cursor.as_ref() => cursor = Some(next),
                None if before_wrap => (cursor, before_wrap) = (None, false),
                _ => return Ok(None),
            }
        }
        Ok(cursor)
    }

    async fn claimable(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Error> {
        let mut claimable = Vec::new();
        for candidate in candidates {
            if self.has_slot(&candidate) && self.has_provider(&candidate).await? {
                claimable.push(candidate);
            }
        }
        Ok(claimable)
    }

    fn has_slot(&self, candidate: &Candidate) -> bool {
        let Some(project) = &candidate.project else { return true };
        self.slots.projects.get(project).copied().unwrap_or(0) < self.deps.orchestration.limits.project
    }

    /// Whether the breaker of its provider allows requests.
    async fn has_provider(&mut self, candidate: &Candidate) -> Result<bool, Error> {
        let provider = candidate.provider.as_ref().unwrap_or(&self.deps.orchestration.default_provider);
        if let Some(unavailable) = self.unavailable.get(provider) {
            return Ok(!unavailable);
        }
        let unavailable =
            matches!(self.deps.store.breaker(provider).await?.allows(self.now), Allow::No { .. });
        self.unavailable.insert(provider.clone(), unavailable);
        Ok(!unavailable)
    }

    fn sorted(&self, found: Vec<Candidate>) -> Vec<Candidate> {
        let (now, weights) = (self.now, &self.deps.orchestration.weights);
        let by_rank = |left: &Candidate, right: &Candidate| {
            rank(&left.score_inputs(), weights).cmp(&rank(&right.score_inputs(), weights))
        };
        // The score caps the waiting time, the rank does not. Sorting by rank now and then keeps a task from starving
        // behind tasks that are always more urgent.
        let rank_only = self.slots.claims % RANK_ONLY_INTERVAL == RANK_ONLY_INTERVAL - 1;
        let scored =
            found.into_iter().map(|candidate| (score(&candidate.score_inputs(), now, weights), candidate));
        let mut scored: Vec<(f64, Candidate)> = scored.collect();
        scored.sort_by(|(left_score, left), (right_score, right)| match rank_only {
            true => by_rank(left, right),
            false => right_score.total_cmp(left_score).then_with(|| by_rank(left, right)),
        });
        scored.into_iter().map(|(_, candidate)| candidate).collect()
    }
}
