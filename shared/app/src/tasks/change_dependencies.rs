//! Changes the dependencies of a task.
//!
//! **Invariant:** the dependency graph has no cycle. A search from the added dependencies finds a cycle, and the
//! commit requires that the version of the org's graph has not changed since the search started: of two concurrent
//! requests that would form a cycle together, one commits and the other searches again. Completed tasks wait for
//! nothing, so the search stops at them.
//!
//! **Invariant:** `unmet` of a task is the number of edges to it, and `dependents` the number of edges from it until
//! it is completed. Edges and counters change in one transaction.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::visibility::visible_task;
use crate::{events, orchestration, tasks};
use contract::ProblemCode;
use contract::tasks::MAX_DEPENDENCIES;
use domain::access::Principal;
use domain::graph::{self, CycleSearch};
use domain::task::Status;
use domain::{Invalid, Task, TaskId};
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

pub type Deps<'a> = orchestration::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    pub change: DependencyChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencyChange {
    Add(Vec<TaskId>),
    Replace(Vec<TaskId>),
    Remove(TaskId),
}

pub type Outcome = Task;

/// Number of tasks to read in one call.
const READ_SIZE: usize = 100;

/// Adding and replacing are idempotent. Removing a dependency a second time is answered with 404.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        if task.status != Status::Pending {
            return Err(not_pending(&task));
        }
        let plan = Plan::new(&task, &command.change)?;
        if plan.added.is_empty() && plan.removed.is_empty() {
            return Ok(task);
        }
        // Read before anything else of the graph: a concurrent request that adds an edge increments the version.
        let graph_version = deps.store.graph(&task.org).await?;
        let touched = touched(deps, &task, &plan).await?;
        let unnotified = unnotified(deps, &task, &plan, &touched).await?;
        check_cycle(deps, &task, &plan.added).await?;
        let principal = &command.principal;
        match write(deps, principal, &task, &plan, &touched, &unnotified, graph_version).await? {
            Some(after) => return Ok(after),
            None => retry.conflict().await?,
        }
    }
}

struct Plan {
    depends_on: Vec<TaskId>,
    added: Vec<TaskId>,
    removed: Vec<TaskId>,
}

impl Plan {
    fn new(task: &Task, change: &DependencyChange) -> Result<Self, Error> {
        let current = &task.depends_on;
        let depends_on: Vec<TaskId> = match change {
            DependencyChange::Add(more) => {
                current.iter().chain(more.iter().filter(|id| !current.contains(id))).cloned().collect()
            }
            DependencyChange::Replace(others) => others.clone(),
            DependencyChange::Remove(removed) if current.contains(removed) => {
                current.iter().filter(|id| *id != removed).cloned().collect()
            }
            DependencyChange::Remove(removed) => {
                return Err(Error::NotFound(format!("Dependency {removed} of task {}", task.id)));
            }
        };
        if depends_on.len() > MAX_DEPENDENCIES {
            let rule = format!("must not exceed {MAX_DEPENDENCIES} tasks; there are {} now", current.len());
            return Err(Invalid::new("depends_on", rule).into());
        }
        let added: Vec<TaskId> = depends_on.iter().filter(|id| !current.contains(id)).cloned().collect();
        let removed: Vec<TaskId> = current.iter().filter(|id| !depends_on.contains(id)).cloned().collect();
        if added.len() + removed.len() > MAX_DEPENDENCIES {
            let rule = format!("must not change by more than {MAX_DEPENDENCIES} tasks in one request");
            return Err(Invalid::new("depends_on", rule).into());
        }
        Ok(Self { depends_on, added, removed })
    }
}

/// The tasks whose edges change. A task of another org looks as if it did not exist.
async fn touched(deps: Deps<'_>, task: &Task, plan: &Plan) -> Result<Vec<Task>, Error> {
    let ids: Vec<TaskId> = plan.added.iter().chain(&plan.removed).cloned().collect();
    let mut found = deps.store.tasks(&ids).await?;
    found.retain(|found| found.org == task.org);
    let missing = plan.added.iter().find(|id| found.iter().all(|found| found.id != **id));
    match missing {
        Some(id) => Err(Invalid::new("depends_on", format!("does not name a task of this org: {id}")).into()),
        None => Ok(found),
    }
}

/// Removed dependencies that are completed, but that this task still counts as unmet because it was not unblocked
/// yet.
async fn unnotified(
    deps: Deps<'_>,
    task: &Task,
    plan: &Plan,
    touched: &[Task],
) -> Result<Vec<TaskId>, Error> {
    let mut unnotified = Vec::new();
    for other in touched {
        // A completed task without dependents has unblocked all of them.
        let may_be =
            other.status == Status::Completed && other.dependents > 0 && plan.removed.contains(&other.id);
        if may_be && deps.store.has_dependent(&other.id, &task.id).await? {
            unnotified.push(other.id.clone());
        }
    }
    Ok(unnotified)
}

async fn check_cycle(deps: Deps<'_>, task: &Task, added: &[TaskId]) -> Result<(), Error> {
    let mut walk = CycleSearch::new(task.id.clone(), added);
    loop {
        // No path leads back to a task without dependents, so no search is needed. A concurrent request that adds a
        // dependent changes the version of the task.
        let level = if task.dependents == 0 { Vec::new() } else { walk.next_level() };
        if level.is_empty() {
            break;
        }
        for chunk in level.chunks(READ_SIZE) {
            for visited in deps.store.tasks(chunk).await? {
                let is_completed = visited.status == Status::Completed;
                walk.add_dependencies(&visited.id, if is_completed { &[] } else { &visited.depends_on });
            }
        }
    }
    match walk.outcome() {
        graph::Outcome::Acyclic => Ok(()),
        graph::Outcome::Cycle(cycle) => {
            let path: Vec<&str> = cycle.iter().map(TaskId::as_str).collect();
            let detail = format!("Task {} would depend on itself: {}.", task.id, path.join(" → "));
            Err(Error::conflict(ProblemCode::DependencyCycle, detail, json!({"cycle": cycle})))
        }
        graph::Outcome::TooLarge => {
            let (max_tasks, max_levels) = (graph::MAX_VISITED, graph::MAX_LEVELS);
            let detail = format!(
                "The dependencies of task {} are too large to check for cycles: more than {max_tasks} tasks or \
                 {max_levels} levels. Nothing was changed.",
                task.id
            );
            let facts = json!({"max_tasks": max_tasks, "max_levels": max_levels});
            Err(Error::conflict(ProblemCode::DependenciesTooLarge, detail, facts))
        }
    }
}

/// Returns `None` on a conflict.
async fn write(
    deps: Deps<'_>,
    principal: &Principal,
    task: &Task,
    plan: &Plan,
    touched: &[Task],
    unnotified: &[TaskId],
    graph_version: u64,
) -> Result<Option<Task>, Error> {
    let now = deps.clock.now();
    let mut commit = Commit::new(now);
    let mut unmet = task.unmet;
    for other in unnotified {
        unmet = unmet.saturating_sub(1);
        commit.edges.push(Edge::Remove { task: other.clone(), dependent: task.id.clone() });
    }
    // A completed task stays completed, so it needs no edge and counts no dependents.
    for other in touched.iter().filter(|other| other.status != Status::Completed) {
        let (blocker, dependent) = (other.id.clone(), task.id.clone());
        let (edge, difference) = match plan.added.contains(&other.id) {
            true => (Edge::Add { task: blocker, dependent }, 1),
            false => (Edge::Remove { task: blocker, dependent }, -1),
        };
        unmet = unmet.saturating_add_signed(difference);
        commit.edges.push(edge);
        commit.tasks.push(Change {
            before: Some(other),
            after: other.with_more_dependents(difference),
            events: Vec::new(),
        });
    }
    let weights = &deps.orchestration.weights;
    let Some(transition) = task.depending_on(plan.depends_on.clone(), unmet, weights, now) else {
        return Ok(None);
    };
    commit.tasks.insert(0, events::emit::task_change(deps.ids, task, transition.by(principal)));
    commit.graph = (!plan.added.is_empty()).then(|| (task.org.clone(), graph_version));
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let after = done.tasks.remove(0);
    tasks::commit::enqueue_follow_ups(deps, task, &after).await;
    tasks::requeue::run(deps, &done.tasks).await;
    Ok(Some(after))
}

fn not_pending(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    let detail = format!("Task {id} is {status}; only the dependencies of a pending task can be changed.");
    Error::conflict(ProblemCode::TaskNotPending, detail, json!({"current_status": status}))
}
