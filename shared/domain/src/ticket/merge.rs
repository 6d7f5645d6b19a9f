//! The merge of all finished branches of a ticket, one after the other: least conflicts first.
//!
//! A value is the whole progress, stored with the ticket. [`TicketMerge::next`] says what is to do; the process that
//! does it writes the result under the condition that the ticket is still the one that was read. So a crash at any
//! point continues.

use super::Ticket;
use crate::message::Sender;
use crate::task::MergeMethod;
use crate::{TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of branches of one merge. Every pair of them is compared.
pub const MAX_BRANCHES: usize = 20;
/// Maximum number of steps in a row that fail for the same branch.
pub const MAX_FAILURES: u32 = 8;
/// Maximum length of a reason.
pub const MAX_REASON_CHARS: usize = 500;

/// The merge of a ticket, from its request to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMerge {
    pub state: MergeState,
    pub method: MergeMethod,
    /// Whether each branch is deleted after its merge.
    pub delete_branches: bool,
    /// Whether a conflict becomes a task for an agent.
    pub resolve_conflicts: bool,
    /// Who asked for it.
    pub by: Sender,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// In the order of merging, once that is known.
    pub branches: Vec<BranchMerge>,
    /// Whether the branches are in the order of merging.
    #[serde(default)]
    pub is_ordered: bool,
    /// No step begins before this time: a code host is asked again, or another process works on a step.
    pub next_at: Timestamp,
    /// How often the current step has failed.
    #[serde(default)]
    pub failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TicketMergeState")]
pub enum MergeState {
    Running,
    /// Every branch was merged, conflicts, or was skipped.
    Ended,
}

/// One branch of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BranchMerge {
    pub task_id: TaskId,
    pub branch: String,
    pub state: BranchState,
    /// When it got its state.
    pub since: Timestamp,
    /// Why it waits, conflicts, or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of files that conflicted with the base or another branch when the order was found.
    #[serde(default)]
    pub conflicts: u32,
    /// The commit of the base that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The task that resolves its conflicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<TaskId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BranchMergeState")]
pub enum BranchState {
    /// For its turn, or for checks.
    Waiting,
    /// An agent resolves its conflicts.
    Resolving,
    Merged,
    /// It contradicts the base. Nothing was merged.
    Conflict,
    /// It cannot be merged for another reason.
    Skipped,
}

impl BranchState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Resolving => "resolving",
            Self::Merged => "merged",
            Self::Conflict => "conflict",
            Self::Skipped => "skipped",
        }
    }

    fn is_final(self) -> bool {
        matches!(self, Self::Merged | Self::Conflict | Self::Skipped)
    }
}

/// What a merge does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeStep {
    /// Find the order.
    Order,
    /// Merge the branch with this index, or find out why that is not possible.
    Merge(usize),
    Finish,
}

impl TicketMerge {
    /// Whether it still has to merge the branch of this task.
    pub fn handles(&self, task: &TaskId) -> bool {
        let is_open = |branch: &BranchMerge| branch.task_id == *task && !branch.state.is_final();
        self.state == MergeState::Running && self.branches.iter().any(is_open)
    }
}

impl BranchMerge {
    pub fn new(task_id: TaskId, branch: String, now: Timestamp) -> Self {
        Self {
            task_id,
            branch,
            state: BranchState::Waiting,
            since: now,
            reason: None,
            conflicts: 0,
            commit: None,
            resolved_by: None,
        }
    }
}

impl TicketMerge {
    pub fn is_running(&self) -> bool {
        self.state == MergeState::Running
    }

    pub fn is_due(&self, now: Timestamp) -> bool {
        self.is_running() && self.next_at <= now
    }

    pub fn next(&self) -> MergeStep {
        // A single branch has an order.
        if !self.is_ordered && self.branches.len() > 1 {
            return MergeStep::Order;
        }
        let waiting = self.branches.iter().position(|branch| branch.state == BranchState::Waiting);
        // Another branch may be merged while an agent works on a conflict.
        let resolving = || self.branches.iter().position(|branch| branch.state == BranchState::Resolving);
        waiting.or_else(resolving).map_or(MergeStep::Finish, MergeStep::Merge)
    }

    /// The same merge with its branches in the order of merging: fewest conflicts first, then as they were.
    #[must_use]
    pub fn ordered(mut self, conflicts: &[u32], now: Timestamp) -> Self {
        for (branch, count) in self.branches.iter_mut().zip(conflicts) {
            branch.conflicts = *count;
        }
        // Stable.
        self.branches.sort_by_key(|branch| branch.conflicts);
        self.is_ordered = true;
        self.continued(now)
    }

    /// A branch has reached a state, and the next step can begin.
    #[must_use]
    pub fn with_branch(
        mut self,
        index: usize,
        state: BranchState,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Self {
        if let Some(branch) = self.branches.get_mut(index) {
            if branch.state != state {
                branch.since = now;
            }
            branch.state = state;
            branch.reason = reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect());
        }
        self.continued(now)
    }

    /// A branch keeps its state for this reason, and is looked at again later.
    #[must_use]
    pub fn waiting(mut self, index: usize, reason: &str, until: Timestamp) -> Self {
        if let Some(branch) = self.branches.get_mut(index) {
            branch.reason = Some(reason.chars().take(MAX_REASON_CHARS).collect());
        }
        (self.next_at, self.failures) = (until, 0);
        self
    }

    /// A step has failed, and is repeated later.
    #[must_use]
    pub fn failed(mut self, until: Timestamp) -> Self {
        (self.next_at, self.failures) = (until, self.failures + 1);
        self
    }

    /// For a while, only the process that has written this works on the next step.
    #[must_use]
    pub fn leased(mut self, until: Timestamp) -> Self {
        self.next_at = until;
        self
    }

    #[must_use]
    pub fn ended(mut self, now: Timestamp) -> Self {
        (self.state, self.ended_at) = (MergeState::Ended, Some(now));
        self
    }

    fn continued(mut self, now: Timestamp) -> Self {
        (self.next_at, self.failures) = (now, 0);
        self
    }

    /// The tasks whose branches are in this state.
    pub fn tasks_in(&self, state: BranchState) -> Vec<TaskId> {
        let found = self.branches.iter().filter(|branch| branch.state == state);
        found.map(|branch| branch.task_id.clone()).collect()
    }

    /// Whether every branch has a final state.
    pub fn has_only_final_branches(&self) -> bool {
        self.branches.iter().all(|branch| branch.state.is_final())
    }
}

impl Ticket {
    /// Whether a step of its merge is due.
    pub fn merge_is_due(&self, now: Timestamp) -> bool {
        self.merge.as_ref().is_some_and(|merge| merge.is_due(now))
    }

    /// The ticket with the progress of its merge.
    #[must_use]
    pub fn with_merge(&self, merge: TicketMerge, now: Timestamp) -> Self {
        Self { merge: Some(merge), ..self.changed(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn merge(branches: &[&str]) -> TicketMerge {
        let branch =
            |name: &&str| BranchMerge::new(TaskId::parse(*name).unwrap(), format!("fix/{name}"), at(1));
        TicketMerge {
            state: MergeState::Running,
            method: MergeMethod::Squash,
            delete_branches: true,
            resolve_conflicts: false,
            by: Sender { kind: "user".into(), id: Some("u-1".into()) },
            started_at: at(1),
            ended_at: None,
            branches: branches.iter().map(branch).collect(),
            is_ordered: false,
            next_at: at(1),
            failures: 0,
        }
    }

    fn names(merge: &TicketMerge) -> Vec<&str> {
        merge.branches.iter().map(|branch| branch.task_id.as_str()).collect()
    }

    #[test]
    fn branches_with_fewer_conflicts_come_first_and_others_keep_their_order() {
        let found = merge(&["a", "b", "c", "d"]).ordered(&[2, 0, 5, 0], at(2));
        assert_eq!(names(&found), ["b", "d", "a", "c"]);
        assert_eq!(found.branches[3].conflicts, 5);
    }

    #[test]
    fn steps_follow_from_the_progress() {
        let two = merge(&["a", "b"]);
        assert_eq!(two.next(), MergeStep::Order);
        assert_eq!(merge(&["a"]).next(), MergeStep::Merge(0), "nothing to order");
        let two = two.ordered(&[0, 0], at(2));
        assert_eq!(two.next(), MergeStep::Merge(0));
        let two = two.with_branch(0, BranchState::Resolving, None, at(3));
        assert_eq!(two.next(), MergeStep::Merge(1), "the other one does not wait for an agent");
        let two = two.with_branch(1, BranchState::Merged, None, at(4));
        assert_eq!(two.next(), MergeStep::Merge(0));
        let two = two.with_branch(0, BranchState::Skipped, Some("closed"), at(5));
        assert_eq!(two.next(), MergeStep::Finish);
        assert_eq!(two.tasks_in(BranchState::Merged).len(), 1);
        assert!(two.has_only_final_branches() && !two.clone().ended(at(6)).is_due(at(9)));
    }

    #[test]
    fn step_is_due_when_its_lease_or_its_wait_has_passed() {
        let found = merge(&["a"]).leased(at(100));
        assert!(!found.is_due(at(99)) && found.is_due(at(100)));
        let found = found.failed(at(200));
        assert_eq!((found.failures, found.is_due(at(199))), (1, false));
        let found = found.waiting(0, "checks are running", at(300));
        assert_eq!((found.failures, found.branches[0].since), (0, at(1)));
        assert_eq!(found.branches[0].reason.as_deref(), Some("checks are running"));
    }
}
