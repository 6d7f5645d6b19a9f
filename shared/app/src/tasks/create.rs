//! Creates a task. It is claimed as soon as its dependencies are met and a slot is free.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{self, Orchestration, dispatch_job};
use crate::{IdSource, events, reconcile, tasks, visibility};
use contract::ProblemCode;
use contract::tasks::Create;
use domain::access::Principal;
use domain::task::Status;
use domain::ticket::ApprovalStatus;
use domain::{Invalid, OrgId, ProjectId, Task, TaskId, Timestamp};
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    /// The org of tasks that an operator creates without an org.
    pub default_org: &'a OrgId,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub create: Create,
}

#[derive(Debug)]
pub enum Outcome {
    Created(Box<Task>),
    /// The same request has created it before. Holds the current state.
    Repeated(Box<Task>),
}

/// Idempotent by id: a retry with the same content gets the current task, one with different content is rejected.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, create } = command;
    let org = visibility::owning_org(&principal, create.org.clone(), deps.default_org)?;
    let (digest, deps) = (create.digest(), deps.base);
    let mut retry = ConflictRetry::new(deps.clock);
    let outcome = loop {
        if let Some(known) = known(deps, &create, &org, &digest).await? {
            break Outcome::Repeated(Box::new(known));
        }
        // After the lookup: a repeated request stays valid if the settings change.
        check(deps.orchestration, &principal, &create)?;
        let dependencies = dependencies(deps, &create.depends_on, &org).await?;
        let project = project(deps, &create, &org).await?;
        let now = deps.clock.now();
        let task = new_task(deps.ids, &create, org.clone(), project, &dependencies, digest.clone(), now);
        if let Some(task) = write(deps, &principal, task, &dependencies, now).await? {
            break Outcome::Created(Box::new(task));
        }
        retry.conflict().await?;
    };
    // After a retry too: the first request may have failed before it enqueued the job.
    let (Outcome::Created(task) | Outcome::Repeated(task)) = &outcome;
    if task.place.is_some() {
        reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&task.org)).await;
    }
    Ok(outcome)
}

/// The task that the same request has created before.
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
            ProblemCode::TaskExists,
            format!("Task {id} already exists with different content; nothing was created."),
            json!({}),
        )),
        None => Ok(None),
    }
}

/// Rejects providers and agents that this plane does not have, and directories of the machine.
fn check(orchestration: &Orchestration, principal: &Principal, create: &Create) -> Result<(), Invalid> {
    orchestration::check_repository(principal, create.execution.repository.as_deref())?;
    if let Some(provider) = &create.execution.provider {
        orchestration.check_provider(provider)?;
    }
    if let Some(agent) = &create.execution.agent {
        orchestration.check_agent(agent)?;
    }
    Ok(())
}

/// A task of another org looks as if it did not exist.
async fn dependencies(
    deps: orchestration::Deps<'_>,
    wanted: &[TaskId],
    org: &OrgId,
) -> Result<Vec<Task>, Error> {
    let mut found = deps.store.tasks(wanted).await?;
    found.retain(|task| task.org == *org);
    match wanted.iter().position(|id| found.iter().all(|task| task.id != *id)) {
        Some(missing) => {
            Err(Invalid::new(format!("depends_on[{missing}]"), "does not name a task of this org").into())
        }
        None => Ok(found),
    }
}

/// The project of the task. Rejects tasks for a ticket that is not approved, and tasks without a ticket if tickets need
/// approval. An approval is never revoked, so the commit need not check it again.
async fn project(
    deps: orchestration::Deps<'_>,
    create: &Create,
    org: &OrgId,
) -> Result<Option<ProjectId>, Error> {
    let Some(id) = &create.ticket else {
        return match deps.orchestration.approval.required {
            true => Err(ticket_required("Nothing was created.")),
            false => Ok(create.project.clone()),
        };
    };
    let ticket = deps.store.ticket(id).await?.filter(|ticket| ticket.org == *org);
    let ticket = ticket.ok_or_else(|| Invalid::new("ticket_id", "does not name a ticket of this org"))?;
    match ticket.approval.status {
        ApprovalStatus::Approved => of_ticket(deps, create, ticket.project),
        approval => {
            let detail =
                format!("Ticket {id} is not approved: its approval is {approval}. Nothing was created.");
            let facts = json!({"ticket_id": id, "approval_status": approval});
            Err(Error::conflict(ProblemCode::TicketNotApproved, detail, facts))
        }
    }
}

/// The project selects the policy and the variables of the sandbox, so a task cannot replace that of its ticket.
fn of_ticket(
    deps: orchestration::Deps<'_>,
    create: &Create,
    ticket: Option<ProjectId>,
) -> Result<Option<ProjectId>, Error> {
    match (&create.project, ticket) {
        (Some(own), Some(ticket)) if *own != ticket => {
            Err(Invalid::new("project_id", format!("must be that of the ticket, {ticket}")).into())
        }
        (Some(_), None) if deps.orchestration.approval.required => {
            Err(Invalid::new("project_id", "must be absent: the approved ticket has no project").into())
        }
        (own, ticket) => Ok(ticket.or_else(|| own.clone())),
    }
}

/// A task without a ticket would start work that only its author has seen.
pub(crate) fn ticket_required(consequence: &str) -> Error {
    let detail =
        format!("Work on this plane needs an approved ticket, and this task belongs to none. {consequence}");
    Error::conflict(ProblemCode::TicketRequired, detail, json!({}))
}

fn new_task(
    ids: &dyn IdSource,
    create: &Create,
    org: OrgId,
    project: Option<ProjectId>,
    dependencies: &[Task],
    digest: String,
    now: Timestamp,
) -> Task {
    let unmet = dependencies.iter().filter(|task| task.status != Status::Completed).count();
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
        branch: None,
        rounds: None,
        digest: Some(digest),
        version: 0,
        seq: 0,
        segments: 0,
    }
}

/// Writes the task with its edges. Returns `None` on a conflict. A new task has no dependents, so it cannot close a
/// cycle.
async fn write(
    deps: orchestration::Deps<'_>,
    principal: &Principal,
    task: Task,
    dependencies: &[Task],
    now: Timestamp,
) -> Result<Option<Task>, Error> {
    let transition = task.created(&deps.orchestration.weights, now).by(principal);
    let mut commit = Commit::new(now);
    let events = events::emit::events_of(deps.ids, transition.events);
    let id = transition.task.id.clone();
    commit.tasks.push(Change { before: None, after: transition.task, events });
    // A completed task stays completed, so it needs no edge and no check.
    for dependency in dependencies.iter().filter(|task| task.status != Status::Completed) {
        commit.edges.push(Edge::Add { task: dependency.id.clone(), dependent: id.clone() });
        commit.tasks.push(Change {
            before: Some(dependency),
            after: dependency.with_more_dependents(1),
            events: Vec::new(),
        });
    }
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let task = done.tasks.remove(0);
    tasks::requeue::run(deps, &done.tasks).await;
    Ok(Some(task))
}
