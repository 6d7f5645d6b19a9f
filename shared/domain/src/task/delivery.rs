//! The transitions that bring the work of a task home: its branch, its pull request, and the merge.

use super::transitions::Transition;
use super::{PullRequestLink, Status, Task, TaskBranch};
use crate::Timestamp;
use crate::attempt::Attempt;
use crate::event::LifecycleEvent;
use crate::event::payloads::{
    MergeConflict, TaskBranchCreated, TaskCompleting, TaskMergeConflict, TaskMerged, TaskPullRequestOpened,
};

impl Task {
    /// Its branch exists at the code host. A later attempt continues on it.
    pub fn branch_created(
        &self,
        attempt: &Attempt,
        branch: TaskBranch,
        repository: &str,
        now: Timestamp,
    ) -> Option<Transition> {
        let is_provisioned = matches!(self.status, Status::Claiming | Status::Assigned);
        if !is_provisioned || !self.is_current(attempt) {
            return None;
        }
        self.branch_started(branch, repository, now)
    }

    /// A caller has created its branch, before its first attempt needs it. `None` if it has one, or has ended.
    pub fn branch_started(&self, branch: TaskBranch, repository: &str, now: Timestamp) -> Option<Transition> {
        if self.branch.is_some() || self.status.is_final() {
            return None;
        }
        let event = TaskBranchCreated {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            repository: repository.to_owned(),
            branch: branch.name.clone(),
            base: branch.base.clone(),
            base_commit: branch.base_commit.clone(),
            by: None,
        };
        Some(self.apply(now, |task| task.branch = Some(branch), &event))
    }

    /// Its agent has completed the work, and the branch becomes a pull request.
    pub fn completing(&self, attempt: &Attempt, now: Timestamp) -> Option<Transition> {
        if !self.status.is_active() || self.status == Status::Completing || !self.is_current(attempt) {
            return None;
        }
        let event = TaskCompleting(self.about(attempt));
        Some(self.apply(now, |task| task.set(Status::Completing, now), &event))
    }

    /// A caller has opened its pull request.
    pub fn pull_request_opened(&self, link: PullRequestLink, now: Timestamp) -> Transition {
        let mut task = self.clone();
        (task.version, task.updated_at) = (self.version + 1, now);
        Transition { task, events: Vec::new() }.with_pull_request(link)
    }

    /// Its pull request was merged with this newest commit of the branch, as this commit of the base. `None` if that is
    /// recorded.
    pub fn merged(&self, head: &str, commit: &str, now: Timestamp) -> Option<Transition> {
        let branch = self.branch.as_ref()?;
        let link = branch.pull_request.as_ref().filter(|link| link.merged_at.is_none())?;
        let event = TaskMerged {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            base: branch.base.clone(),
            commit: commit.to_owned(),
            by: None,
        };
        let merged = PullRequestLink { commit: head.to_owned(), merged_at: Some(now), ..link.clone() };
        let branch = TaskBranch { pull_request: Some(merged), ..branch.clone() };
        Some(self.apply(
            now,
            |task| {
                task.branch = Some(branch);
                task.stop_rounds();
            },
            &event,
        ))
    }
}

impl Task {
    /// Its branch contradicts the base. Nothing but its log changes.
    pub fn merge_conflicts(&self, conflict: MergeConflict, now: Timestamp) -> Transition {
        self.apply(now, |_| {}, &TaskMergeConflict(conflict))
    }
}

impl Transition {
    /// Records the pull request with the transition that follows from it. Changes nothing if the task has no branch.
    #[must_use]
    pub fn with_pull_request(mut self, link: PullRequestLink) -> Self {
        let (task_id, ticket_id) = (self.task.id.clone(), self.task.ticket.clone());
        let Some(branch) = &mut self.task.branch else { return self };
        let event = TaskPullRequestOpened {
            task_id,
            ticket_id,
            number: link.number,
            url: link.url.clone(),
            branch: branch.name.clone(),
            base: branch.base.clone(),
            commit: link.commit.clone(),
            updated: branch.pull_request.as_ref().is_some_and(|before| before.number == link.number),
            by: None,
        };
        let number = link.number;
        branch.pull_request = Some(link);
        let now = self.task.updated_at;
        self.task.watch(number, now);
        self.events.insert(0, LifecycleEvent::new(&event));
        self
    }
}
