//! Changes of a task that do not affect its status: its text, its priority, and its dependencies.

use super::transitions::Transition;
use super::{Priority, Status, Task};
use crate::event::LifecycleEvent;
use crate::event::payloads::{TaskDependenciesChanged, TaskUpdated};
use crate::score::Weights;
use crate::{TaskId, Timestamp};

/// Absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub title: Option<String>,
    pub description: Option<String>,
    pub priority: Option<Priority>,
    /// `Some(None)` removes the deadline.
    pub deadline_at: Option<Option<Timestamp>>,
    pub timeout_secs: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Edited {
    Changed(Box<Transition>),
    Unchanged,
    /// The task has a final status and cannot be edited.
    Finished,
}

impl Task {
    /// Applies an edit. A queued task gets a new place if its score changes.
    pub fn edited(&self, edit: &Edit, weights: &Weights, now: Timestamp) -> Edited {
        let mut after = self.clone();
        let mut changed = Vec::new();
        set(&mut after.title, edit.title.as_ref(), "title", &mut changed);
        set(&mut after.description, edit.description.as_ref(), "description", &mut changed);
        set(&mut after.priority, edit.priority.as_ref(), "priority", &mut changed);
        set(&mut after.deadline_at, edit.deadline_at.as_ref(), "deadline_at", &mut changed);
        let timeout = edit.timeout_secs.map(Some);
        set(&mut after.timeout_secs, timeout.as_ref(), "timeout_seconds", &mut changed);
        if self.status.is_final() {
            return Edited::Finished;
        }
        if changed.is_empty() {
            return Edited::Unchanged;
        }
        let event = TaskUpdated {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            changed: changed.into_iter().map(str::to_owned).collect(),
            title: after.title.clone(),
            priority: after.priority,
            deadline_at: after.deadline_at,
            timeout_seconds: after.timeout_secs,
            by: None,
        };
        after = after.reranked(weights);
        after.version += 1;
        after.updated_at = now;
        Edited::Changed(Box::new(Transition { task: after, events: vec![LifecycleEvent::new(&event)] }))
    }

    /// Replaces the dependencies, `unmet` of which are not completed. Only a pending task can have new dependencies.
    pub fn depending_on(
        &self,
        depends_on: Vec<TaskId>,
        unmet: u32,
        weights: &Weights,
        now: Timestamp,
    ) -> Option<Transition> {
        if self.status != Status::Pending {
            return None;
        }
        let (task_id, ticket_id) = (self.id.clone(), self.ticket.clone());
        let event =
            TaskDependenciesChanged { task_id, ticket_id, depends_on: depends_on.clone(), unmet, by: None };
        let mut after = self.clone();
        (after.depends_on, after.unmet) = (depends_on, unmet);
        if unmet > 0 {
            after.place = None;
        }
        after.version += 1;
        after.updated_at = now;
        let events = vec![LifecycleEvent::new(&event)];
        let changed = Transition { task: after, events };
        Some(match changed.task.ready(weights, now) {
            Some(mut ready) => {
                ready.task.version = changed.task.version;
                ready.events.splice(0..0, changed.events);
                ready
            }
            None => changed,
        })
    }

    /// Changes the number of tasks that wait for this one. The place in the queue stays the same, because it costs
    /// additional writes and one transaction may change many tasks. The caller updates it afterwards ([`Task::reranked`]).
    #[must_use]
    pub fn with_more_dependents(&self, change: i32) -> Self {
        let mut after = self.clone();
        after.dependents = after.dependents.saturating_add_signed(change);
        after.version += 1;
        after
    }
}

fn set<T: Clone + PartialEq>(
    field: &mut T,
    value: Option<&T>,
    name: &'static str,
    changed: &mut Vec<&'static str>,
) {
    if let Some(value) = value.filter(|value| *value != field) {
        *field = value.clone();
        changed.push(name);
    }
}

#[cfg(test)]
mod tests;
