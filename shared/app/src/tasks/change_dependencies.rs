//! Changes what a task waits for.
//!
//! **Invariant:** no task comes to wait for itself. A search from the task finds out, and the org's graph has to be as it
//! was when the search began: of two requests that would build a cycle together, one is written and the other searches
//! again. What is completed waits for nothing, whatever it depends on, and the search goes no further there.
//!
//! **Invariant:** a task counts as many unmet dependencies as edges lead to it, and `dependents` of another is the number
//! of edges from it until it is completed. All of it changes in one transaction.

use crate::error::Error;
use crate::visibility::visible_task;
use crate::{events, orchestration, race, tasks};
use contract::tasks::MAX_DEPENDENCIES;
use domain::access::Principal;
use domain::graph::{self, Walk};
use domain::task::Status;
use domain::{Invalid, Task, TaskId};
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which task.
    pub task: TaskId,
    /// How.
    pub change: DependencyChange,
}

/// What is to be different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencyChange {
    /// It waits for these too.
    Add(Vec<TaskId>),
    /// It waits for these and no others.
    Replace(Vec<TaskId>),
    /// It does not wait for this one.
    Remove(TaskId),
}

/// The task, as it is now.
pub type Outcome = Task;

/// How many tasks are read at once.
const AT_ONCE: usize = 100;

/// A repeat of an addition or a replacement changes nothing; what was removed is not found again.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        if task.status != Status::Pending {
            return Err(begun(&task));
        }
        let plan = Plan::new(&task, &command.change)?;
        if plan.added.is_empty() && plan.removed.is_empty() {
            return Ok(task);
        }
        // Before anything of the graph is read: who adds an edge meanwhile moves it.
        let graph = deps.store.graph(&task.org).await?;
        let touched = touched(deps, &task, &plan).await?;
        let untold = untold(deps, &task, &plan, &touched).await?;
        check_cycle(deps, &task, &plan.added).await?;
        match write(deps, &task, &plan, &touched, &untold, graph).await? {
            Some(after) => return Ok(after),
            None => race.lost().await?,
        }
    }
}

/// What changes.
struct Plan {
    depends_on: Vec<TaskId>,
    added: Vec<TaskId>,
    removed: Vec<TaskId>,
}

impl Plan {
    fn new(task: &Task, wish: &DependencyChange) -> Result<Self, Error> {
        let now = &task.depends_on;
        let depends_on: Vec<TaskId> = match wish {
            DependencyChange::Add(more) => {
                now.iter().chain(more.iter().filter(|id| !now.contains(id))).cloned().collect()
            }
            DependencyChange::Replace(others) => others.clone(),
            DependencyChange::Remove(one) if now.contains(one) => {
                now.iter().filter(|id| *id != one).cloned().collect()
            }
            DependencyChange::Remove(one) => {
                return Err(Error::NotFound(format!("Dependency {one} of task {}", task.id)));
            }
        };
        if depends_on.len() > MAX_DEPENDENCIES {
            let rule = format!("must not grow beyond {MAX_DEPENDENCIES} tasks; there are {} now", now.len());
            return Err(Invalid::new("depends_on", rule).into());
        }
        let added: Vec<TaskId> = depends_on.iter().filter(|id| !now.contains(id)).cloned().collect();
        let removed: Vec<TaskId> = now.iter().filter(|id| !depends_on.contains(id)).cloned().collect();
        if added.len() + removed.len() > MAX_DEPENDENCIES {
            let rule =
                format!("must not change by more than {MAX_DEPENDENCIES} tasks at once; do it in steps");
            return Err(Invalid::new("depends_on", rule).into());
        }
        Ok(Self { depends_on, added, removed })
    }
}

/// The tasks at the other ends. A foreign task looks exactly like one that is not there.
async fn touched(deps: Deps<'_>, task: &Task, plan: &Plan) -> Result<Vec<Task>, Error> {
    let ids: Vec<TaskId> = plan.added.iter().chain(&plan.removed).cloned().collect();
    let mut found = deps.store.tasks(&ids).await?;
    found.retain(|one| one.org == task.org);
    let missing = plan.added.iter().find(|id| found.iter().all(|one| one.id != **id));
    match missing {
        Some(id) => Err(Invalid::new("depends_on", format!("names no task of this org: {id}")).into()),
        None => Ok(found),
    }
}

/// Those of what is to be removed that are completed, and have not told this task so yet: it still counts them.
async fn untold(deps: Deps<'_>, task: &Task, plan: &Plan, touched: &[Task]) -> Result<Vec<TaskId>, Error> {
    let mut untold = Vec::new();
    for one in touched {
        // Whoever has told all that waited says so by counting none.
        let may_be = one.status == Status::Completed && one.dependents > 0 && plan.removed.contains(&one.id);
        if may_be && deps.store.is_awaited_by(&one.id, &task.id).await? {
            untold.push(one.id.clone());
        }
    }
    Ok(untold)
}

async fn check_cycle(deps: Deps<'_>, task: &Task, added: &[TaskId]) -> Result<(), Error> {
    let mut walk = Walk::new(task.id.clone(), added);
    loop {
        // If nobody waits for it no way leads back to it, and nobody has to search. Whoever comes to wait for it meanwhile
        // moves its version.
        let level = if task.dependents == 0 { Vec::new() } else { walk.next_level() };
        if level.is_empty() {
            break;
        }
        for some in level.chunks(AT_ONCE) {
            for one in deps.store.tasks(some).await? {
                let is_over = one.status == Status::Completed;
                walk.learn(&one.id, if is_over { &[] } else { &one.depends_on });
            }
        }
    }
    match walk.outcome() {
        graph::Outcome::Acyclic => Ok(()),
        graph::Outcome::Cycle(cycle) => {
            let way: Vec<&str> = cycle.iter().map(TaskId::as_str).collect();
            let detail = format!("Task {} would wait for itself: {}.", task.id, way.join(" → "));
            Err(Error::conflict("dependency_cycle", detail, json!({"cycle": cycle})))
        }
        graph::Outcome::TooLarge => {
            let (most, deepest) = (graph::MAX_VISITED, graph::MAX_LEVELS);
            let detail = format!(
                "Whether task {} would wait for itself cannot be told: more than {most} tasks would be before it, or \
                 more than {deepest} one behind the other. Nothing was changed.",
                task.id
            );
            let facts = json!({"most": most, "deepest": deepest});
            Err(Error::conflict("dependencies_too_large", detail, facts))
        }
    }
}

/// Writes all of it; `None` if somebody else was faster.
async fn write(
    deps: Deps<'_>,
    task: &Task,
    plan: &Plan,
    touched: &[Task],
    untold: &[TaskId],
    graph: u64,
) -> Result<Option<Task>, Error> {
    let now = deps.clock.now();
    let mut commit = Commit::new(now);
    let mut unmet = task.unmet;
    for one in untold {
        unmet = unmet.saturating_sub(1);
        commit.edges.push(Edge::Remove { task: one.clone(), waits: task.id.clone() });
    }
    // What is completed stays so: no edge to it is needed, and it counts nobody any more.
    for one in touched.iter().filter(|one| one.status != Status::Completed) {
        let (ahead, waits) = (one.id.clone(), task.id.clone());
        let (edge, more) = match plan.added.contains(&one.id) {
            true => (Edge::Add { task: ahead, waits }, 1),
            false => (Edge::Remove { task: ahead, waits }, -1),
        };
        unmet = unmet.saturating_add_signed(more);
        commit.edges.push(edge);
        commit.tasks.push(Change { before: Some(one), after: one.awaited_by_more(more), events: Vec::new() });
    }
    let weights = &deps.orchestration.weights;
    let Some(moved) = task.depending_on(plan.depends_on.clone(), unmet, weights, now) else {
        return Ok(None);
    };
    commit.tasks.insert(0, events::emit::task_change(deps.ids, task, moved));
    commit.graph = (!plan.added.is_empty()).then(|| (task.org.clone(), graph));
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let after = done.tasks.remove(0);
    tasks::commit::follow_up(deps, task, &after).await;
    tasks::requeue::run(deps, &done.tasks).await;
    Ok(Some(after))
}

fn begun(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    let detail = format!("Task {id} is {status}; only what waits to be begun can wait for something else.");
    Error::conflict("task_not_pending", detail, json!({"current_status": status}))
}
