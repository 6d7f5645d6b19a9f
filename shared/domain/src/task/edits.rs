//! What people change of a task beside its status: its words, its urgency, and what it waits for.

use super::transitions::{LifecycleEvent, Transition};
use super::{Priority, Status, Task};
use crate::score::Weights;
use crate::{TaskId, Timestamp};
use serde_json::json;

/// What is to be changed. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// In a few words.
    pub title: Option<String>,
    /// In full.
    pub description: Option<String>,
    /// How much it matters.
    pub priority: Option<Priority>,
    /// When it should be done; `Some(None)` takes the deadline away.
    pub deadline_at: Option<Option<Timestamp>>,
    /// How long it may run.
    pub timeout_secs: Option<u64>,
}

/// What came of an edit.
#[derive(Debug, Clone, PartialEq)]
pub enum Edited {
    /// It is different now.
    Changed(Box<Transition>),
    /// It is as it was.
    Same,
    /// It is over, and stays as it is.
    Over,
}

impl Task {
    /// Somebody changes it. A task in the queue takes another place if it is more or less urgent now.
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
            return Edited::Over;
        }
        if changed.is_empty() {
            return Edited::Same;
        }
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "changed": changed, "title": after.title,
            "priority": after.priority, "deadline_at": after.deadline_at, "timeout_seconds": after.timeout_secs,
        });
        after = after.placed_anew(weights);
        after.version += 1;
        after.updated_at = now;
        Edited::Changed(Box::new(Transition {
            task: after,
            events: vec![LifecycleEvent::of_task("updated", &data)],
        }))
    }

    /// It waits for these from now on, `unmet` of which are not completed. Only one that nobody has begun can wait.
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
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "depends_on": depends_on, "unmet": unmet,
        });
        let mut after = self.clone();
        (after.depends_on, after.unmet) = (depends_on, unmet);
        if unmet > 0 {
            after.place = None;
        }
        after.version += 1;
        after.updated_at = now;
        let events = vec![LifecycleEvent::of_task("dependencies_changed", &data)];
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

    /// So many more tasks wait for it. It keeps its place in the queue: a place costs writes of its own, and one
    /// transaction may be about many tasks. Whoever has written this sees to the place ([`Task::placed_anew`]).
    #[must_use]
    pub fn awaited_by_more(&self, more: i32) -> Self {
        let mut after = self.clone();
        after.dependents = after.dependents.saturating_add_signed(more);
        after.version += 1;
        after
    }
}

fn set<T: Clone + PartialEq>(
    field: &mut T,
    wanted: Option<&T>,
    name: &'static str,
    changed: &mut Vec<&'static str>,
) {
    if let Some(wanted) = wanted.filter(|wanted| *wanted != field) {
        *field = wanted.clone();
        changed.push(name);
    }
}

#[cfg(test)]
mod tests;
