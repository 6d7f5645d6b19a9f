//! Writes a task down. It is claimed as soon as nothing is in its way and a slot is free.

use crate::error::Error;
use crate::orchestration::{self, dispatch_job};
use crate::{IdSource, events, race, reconcile, tasks};
use contract::tasks::Create;
use domain::access::Principal;
use domain::task::Status;
use domain::ticket::ApprovalStatus;
use domain::{Invalid, OrgId, ProjectId, Task, TaskId, Timestamp};
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Writes the task, and reads what it waits for.
    pub deps: orchestration::Deps<'a>,
    /// The org of tasks that an operator creates without naming one.
    pub default_org: &'a OrgId,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// How it should be.
    pub create: Create,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// It is there now.
    Created(Box<Task>),
    /// It was there: this request was sent before. The task is as it is by now.
    Repeated(Box<Task>),
}

/// A repeat with the same id and content gets the task as it is by then; with another content it is refused.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, create } = command;
    let org = whose(&principal, create.org.as_ref(), deps.default_org)?;
    let (digest, deps) = (create.digest(), deps.deps);
    if let Some(provider) = &create.execution.provider {
        deps.orchestration.check_provider(provider)?;
    }
    let mut race = race::Race::new(deps.clock);
    let outcome = loop {
        if let Some(known) = known(deps, &create, &org, &digest).await? {
            break Outcome::Repeated(Box::new(known));
        }
        let awaited = dependencies(deps, &create.depends_on, &org).await?;
        let project = project(deps, &create, &org).await?;
        let now = deps.clock.now();
        let task = new_task(deps.ids, &create, org.clone(), project, &awaited, digest.clone(), now);
        if let Some(task) = write(deps, task, &awaited, now).await? {
            break Outcome::Created(Box::new(task));
        }
        race.lost().await?;
    };
    // After a repeat too: whoever wrote it down may not have come to ask.
    let (Outcome::Created(task) | Outcome::Repeated(task)) = &outcome;
    if task.place.is_some() {
        reconcile::jobs::ask(deps.work, &dispatch_job(&task.org)).await;
    }
    Ok(outcome)
}

fn whose(principal: &Principal, wanted: Option<&OrgId>, default_org: &OrgId) -> Result<OrgId, Error> {
    match (principal, wanted) {
        (Principal::User { org: own, .. }, Some(org)) if org != own => {
            Err(Error::Forbidden("You can create tasks in your own org only."))
        }
        (Principal::User { org: own, .. }, _) => Ok(own.clone()),
        (_, org) => Ok(org.unwrap_or(default_org).clone()),
    }
}

/// The task that was created by the same request.
async fn known(
    deps: orchestration::Deps<'_>,
    create: &Create,
    org: &OrgId,
    digest: &str,
) -> Result<Option<Task>, Error> {
    let Some(id) = &create.id else { return Ok(None) };
    match deps.store.task(id).await? {
        Some(task) if task.org == *org && task.digest.as_deref() == Some(digest) => Ok(Some(task)),
        Some(_) => Err(Error::conflict(
            "task_exists",
            format!("Task {id} exists already, and is another one; nothing was created."),
            json!({}),
        )),
        None => Ok(None),
    }
}

/// What it will wait for. A foreign task looks exactly like one that is not there.
async fn dependencies(
    deps: orchestration::Deps<'_>,
    wanted: &[TaskId],
    org: &OrgId,
) -> Result<Vec<Task>, Error> {
    let mut found = deps.store.tasks(wanted).await?;
    found.retain(|task| task.org == *org);
    match wanted.iter().position(|id| found.iter().all(|task| task.id != *id)) {
        Some(missing) => {
            Err(Invalid::new(format!("depends_on[{missing}]"), "names no task of this org").into())
        }
        None => Ok(found),
    }
}

/// The project that it counts towards. A ticket that may not be worked on gets no tasks; what is approved of stays so, so
/// nobody has to look again when the task is written.
async fn project(
    deps: orchestration::Deps<'_>,
    create: &Create,
    org: &OrgId,
) -> Result<Option<ProjectId>, Error> {
    let Some(id) = &create.ticket else { return Ok(create.project.clone()) };
    let ticket = deps.store.ticket(id).await?.filter(|ticket| ticket.org == *org);
    let ticket = ticket.ok_or_else(|| Invalid::new("ticket_id", "names no ticket of this org"))?;
    match ticket.approval.status {
        ApprovalStatus::Approved => Ok(create.project.clone().or(ticket.project)),
        approval => {
            let detail = format!(
                "Ticket {id} may not be worked on: its approval is {approval}, not approved. Nothing was created."
            );
            let facts = json!({"ticket_id": id, "approval_status": approval});
            Err(Error::conflict("ticket_not_approved", detail, facts))
        }
    }
}

fn new_task(
    ids: &dyn IdSource,
    create: &Create,
    org: OrgId,
    project: Option<ProjectId>,
    awaited: &[Task],
    digest: String,
    now: Timestamp,
) -> Task {
    let unmet = awaited.iter().filter(|task| task.status != Status::Completed).count();
    Task {
        id: create.id.clone().unwrap_or_else(|| ids.task()),
        org,
        ticket: create.ticket.clone(),
        project,
        task_type: create.task_type.clone(),
        title: create.title.clone(),
        description: create.description.clone(),
        phase: create.phase.clone(),
        priority: create.priority,
        status: Status::Pending,
        created_at: now,
        updated_at: now,
        started_at: None,
        completed_at: None,
        since: now,
        depends_on: create.depends_on.clone(),
        unmet: u32::try_from(unmet).unwrap_or(u32::MAX),
        dependents: 0,
        place: None,
        attempt: 0,
        sandbox: None,
        retry_count: 0,
        max_retries: create.max_retries,
        not_before: None,
        timeout_secs: create.timeout_secs,
        deadline_at: create.deadline_at,
        validation: create.validation,
        feedback: None,
        revisions: 0,
        result: None,
        error: None,
        execution: create.execution.clone(),
        digest: Some(digest),
        version: 0,
        seq: 0,
        segments: 0,
    }
}

/// Writes it with its edges; `None` if somebody else was faster. Nobody waits for a task that is new, so none can come
/// to wait for itself.
async fn write(
    deps: orchestration::Deps<'_>,
    task: Task,
    awaited: &[Task],
    now: Timestamp,
) -> Result<Option<Task>, Error> {
    let moved = task.created(&deps.orchestration.weights, now);
    let mut commit = Commit::new(now);
    let events = events::emit::events_of(deps.ids, moved.events);
    let id = moved.task.id.clone();
    commit.tasks.push(Change { before: None, after: moved.task, events });
    // What is completed stays so: nobody has to look whether it still is.
    for one in awaited.iter().filter(|one| one.status != Status::Completed) {
        commit.edges.push(Edge::Add { task: one.id.clone(), waits: id.clone() });
        commit.tasks.push(Change { before: Some(one), after: one.awaited_by_more(1), events: Vec::new() });
    }
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let task = done.tasks.remove(0);
    tasks::requeue::run(deps, &done.tasks).await;
    Ok(Some(task))
}
