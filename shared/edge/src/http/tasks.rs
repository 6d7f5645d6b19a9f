//! Tasks: the units of work of a ticket.
//!
//! A list is an object: `{tasks, next_cursor, has_more}`. OmoiOS returned a bare array, which cannot carry a cursor.

use super::endpoint::{created, ok};
use super::parameters::{CURSOR, LIMIT, LogPage, ORG};
use super::{Call, Endpoint, json};
use app::tasks::list::Filter;
use app::tasks::transition::Step;
use app::{Error, events, tasks};
use bytes::Bytes;
use contract::ProblemCode::{
    DependenciesTooLarge, DependencyCycle, OutcomeAlreadyRecorded, SandboxNotRunning, TaskExists,
    TaskFinished, TaskMismatch, TaskNotFinished, TaskNotPending, TaskNotValidating, TicketNotApproved,
    TicketRequired,
};
use contract::events::EventPage;
use contract::query::Parameter;
use contract::requests::{self, ChangeTask, CompleteTask, EndTask, NewTask, ReviewTask, SetDependencies};
use contract::tasks::{
    Complete, Completed, Create, Dependencies, DependsOn, Ended, Reason, Review, Reviewed, SANDBOX_TYPE,
    SetTimeout, TaskList, TaskOut, Update,
};
use domain::task::Status;
use domain::task::edits::Edit;
use domain::{Entity, Invalid, OrgId, ProjectId, SandboxId, Task, TaskId, TicketId};
use http::{Response, StatusCode};

/// `POST /api/v1/tasks`.
pub const CREATE: Endpoint =
    Endpoint::new(|call| Box::pin(create(call)), &[created::<TaskOut>(), ok::<TaskOut>()])
        .body::<NewTask>()
        .problems(&[TaskExists, TicketNotApproved, TicketRequired]);
/// `GET /api/v1/tasks`.
pub const LIST: Endpoint = Endpoint::new(|call| Box::pin(list(call)), &[ok::<TaskList>()]).query(&[
    ORG,
    STATUS,
    TASK_TYPE,
    PHASE,
    PROJECT,
    TICKET,
    SANDBOX,
    HAS_SANDBOX,
    CURSOR,
    LIMIT,
]);
/// `GET /api/v1/tasks/{id}`.
pub const GET: Endpoint = Endpoint::new(|call| Box::pin(get(call)), &[ok::<TaskOut>()]);
/// `PATCH /api/v1/tasks/{id}`.
pub const UPDATE: Endpoint = Endpoint::new(|call| Box::pin(update(call)), &[ok::<TaskOut>()])
    .body::<ChangeTask>()
    .problems(&[TaskFinished]);
/// `GET /api/v1/tasks/{id}/events`.
pub const EVENTS: Endpoint =
    Endpoint::new(|call| Box::pin(events(call)), &[ok::<EventPage>()]).query(LogPage::PARAMETERS);
/// `GET /api/v1/tasks/{id}/dependencies`.
pub const DEPENDENCIES: Endpoint =
    Endpoint::new(|call| Box::pin(dependencies(call)), &[ok::<Dependencies>()]);
/// `POST /api/v1/tasks/{id}/dependencies`.
pub const ADD_DEPENDENCIES: Endpoint =
    Endpoint::new(|call| Box::pin(add_dependencies(call)), &[ok::<TaskOut>()])
        .body::<SetDependencies>()
        .problems(&[TaskNotPending, DependencyCycle, DependenciesTooLarge]);
/// `PUT /api/v1/tasks/{id}/dependencies`.
pub const REPLACE_DEPENDENCIES: Endpoint =
    Endpoint::new(|call| Box::pin(replace_dependencies(call)), &[ok::<TaskOut>()])
        .body::<SetDependencies>()
        .problems(&[TaskNotPending, DependencyCycle, DependenciesTooLarge]);
/// `DELETE /api/v1/tasks/{id}/dependencies/{dependency_id}`.
pub const REMOVE_DEPENDENCY: Endpoint =
    Endpoint::new(|call| Box::pin(remove_dependency(call)), &[ok::<TaskOut>()]).problems(&[TaskNotPending]);
/// `POST /api/v1/tasks/{id}/fail`.
pub const FAIL: Endpoint = Endpoint::new(|call| Box::pin(fail(call)), &[ok::<Ended>()])
    .query(&[Reason::PARAMETER])
    .optional_body::<EndTask>()
    .problems(&[TaskFinished]);
/// `POST /api/v1/tasks/{id}/cancel`.
pub const CANCEL: Endpoint = Endpoint::new(|call| Box::pin(cancel(call)), &[ok::<Ended>()])
    .query(&[Reason::PARAMETER])
    .optional_body::<EndTask>()
    .problems(&[TaskFinished]);
/// `POST /api/v1/tasks/{id}/retry`.
pub const RETRY: Endpoint = Endpoint::new(|call| Box::pin(retry(call)), &[ok::<TaskOut>()])
    .problems(&[TaskNotFinished, TicketRequired]);
/// `POST /api/v1/tasks/{id}/set-timeout`.
pub const SET_TIMEOUT: Endpoint = Endpoint::new(|call| Box::pin(set_timeout(call)), &[ok::<TaskOut>()])
    .query(&[SetTimeout::PARAMETER])
    .optional_body::<requests::SetTimeout>()
    .problems(&[TaskFinished]);
/// `GET /api/v1/sandboxes/{id}/task`.
pub const OF_SANDBOX: Endpoint = Endpoint::new(|call| Box::pin(of_sandbox(call)), &[ok::<TaskOut>()]);
/// `POST /api/v1/sandboxes/{id}/task-complete`.
pub const COMPLETE: Endpoint = Endpoint::new(|call| Box::pin(complete(call)), &[ok::<Completed>()])
    .body::<CompleteTask>()
    .problems(&[SandboxNotRunning, TaskMismatch, OutcomeAlreadyRecorded]);
/// `POST /api/v1/sandboxes/{id}/validation-result`.
pub const VALIDATE: Endpoint = Endpoint::new(|call| Box::pin(validate(call)), &[ok::<Reviewed>()])
    .body::<ReviewTask>()
    .problems(&[TaskNotValidating]);

const STATUS: Parameter = Parameter::list_of(
    "status",
    || Status::ALL.map(Status::as_str).to_vec(),
    "Only tasks in one of these statuses, comma-separated or repeated.",
);
const TASK_TYPE: Parameter = Parameter::text(
    "task_type",
    "Only tasks of this type. As in OmoiOS, `sandbox` means tasks with a sandbox.",
);
const PHASE: Parameter = Parameter::text("phase_id", "Only tasks of this phase.");
const PROJECT: Parameter = Parameter::id("project_id", "Only tasks of this project.");
const TICKET: Parameter = Parameter::id("ticket_id", "Only tasks of this ticket.");
const SANDBOX: Parameter = Parameter::id("sandbox_id", "Only the task that is assigned to this sandbox.");
const HAS_SANDBOX: Parameter =
    Parameter::flag("has_sandbox", "Only tasks that have a sandbox, or have none.");

async fn create(call: Call) -> Result<Response<Bytes>, Error> {
    let create = Create::decode(&call.body)?;
    let plane = &call.plane;
    let deps = tasks::create::Deps { base: plane.orchestration()?, default_org: &plane.settings.default_org };
    let command = tasks::create::Command { principal: call.principal.clone(), create };
    let (status, task) = match tasks::create::run(deps, command).await? {
        tasks::create::Outcome::Created(task) => (StatusCode::CREATED, task),
        tasks::create::Outcome::Repeated(task) => (StatusCode::OK, task),
    };
    Ok(json(status, &render(&call, &task)))
}

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let command = tasks::list::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
        filter: filter(&call)?,
        cursor: call.query.get(&CURSOR).map(str::to_owned),
        limit: call.query.size(&LIMIT)?,
        principal: call.principal.clone(),
    };
    let page = tasks::list::run(tasks::list::Deps { store: &call.plane.store }, command).await?;
    let tasks = page.tasks.iter().map(|task| render(&call, task)).collect();
    let has_more = page.next_cursor.is_some();
    Ok(json(StatusCode::OK, &TaskList { tasks, next_cursor: page.next_cursor, has_more }))
}

fn filter(call: &Call) -> Result<Filter, Error> {
    let query = &call.query;
    let task_type = query.get(&TASK_TYPE).map(str::to_owned);
    let by_type = task_type.as_deref() == Some(SANDBOX_TYPE);
    let statuses = query.list(&STATUS)?;
    Ok(Filter {
        statuses: Status::ALL
            .into_iter()
            .filter(|status| statuses.iter().any(|name| name == status.as_str()))
            .collect(),
        task_type: task_type.filter(|_| !by_type),
        phase: query.get(&PHASE).map(str::to_owned),
        project: query.parsed(&PROJECT, ProjectId::parse)?,
        ticket: query.parsed(&TICKET, TicketId::parse)?,
        sandbox: query.parsed(&SANDBOX, SandboxId::parse)?,
        has_sandbox: query.flag(&HAS_SANDBOX)?.or(by_type.then_some(true)),
    })
}

async fn get(call: Call) -> Result<Response<Bytes>, Error> {
    let command = tasks::get::Command { task: task(&call)?, principal: call.principal.clone() };
    let task = tasks::get::run(tasks::get::Deps { store: &call.plane.store }, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn update(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let Update(edit) = Update::decode(&call.body)?;
    apply_edit(call, task, edit).await
}

async fn set_timeout(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let SetTimeout(secs) = SetTimeout::decode(&call.body, &call.query)?;
    apply_edit(call, task, Edit { timeout_secs: Some(secs), ..Edit::default() }).await
}

async fn apply_edit(call: Call, task: TaskId, edit: Edit) -> Result<Response<Bytes>, Error> {
    let command = tasks::update::Command { principal: call.principal.clone(), task, edit };
    let task = tasks::update::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn events(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let LogPage { after_seq, before_seq, order, limit } = LogPage::decode(&call.query)?;
    let command = events::history::Command {
        entity: Entity::Task(task),
        after_seq,
        before_seq,
        order,
        limit,
        principal: call.principal,
    };
    let deps = events::history::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &events::history::run(deps, command).await?))
}

async fn dependencies(call: Call) -> Result<Response<Bytes>, Error> {
    let command = tasks::dependencies::Command { task: task(&call)?, principal: call.principal };
    let deps = tasks::dependencies::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &tasks::dependencies::run(deps, command).await?))
}

async fn add_dependencies(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let DependsOn(added) = DependsOn::decode(&call.body)?;
    change_dependencies(call, task, tasks::change_dependencies::DependencyChange::Add(added)).await
}

async fn replace_dependencies(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let DependsOn(replacements) = DependsOn::decode(&call.body)?;
    change_dependencies(call, task, tasks::change_dependencies::DependencyChange::Replace(replacements)).await
}

async fn remove_dependency(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let removed = TaskId::parse(call.parameters.get(1).cloned().unwrap_or_default())
        .map_err(|invalid| Invalid::new("dependency_id", invalid.reason))?;
    change_dependencies(call, task, tasks::change_dependencies::DependencyChange::Remove(removed)).await
}

async fn change_dependencies(
    call: Call,
    task: TaskId,
    change: tasks::change_dependencies::DependencyChange,
) -> Result<Response<Bytes>, Error> {
    let command = tasks::change_dependencies::Command { principal: call.principal.clone(), task, change };
    let task = tasks::change_dependencies::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn fail(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let Reason(reason) = Reason::decode(&call.body, &call.query)?;
    let reason = reason.unwrap_or_else(|| "marked_failed_by_user".to_owned());
    end(call, task, Step::Fail { reason: reason.clone() }, reason).await
}

async fn cancel(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let Reason(reason) = Reason::decode(&call.body, &call.query)?;
    let reason = reason.unwrap_or_else(|| "cancelled_by_request".to_owned());
    end(call, task, Step::Cancel { reason: reason.clone() }, reason).await
}

async fn end(call: Call, task: TaskId, step: Step, reason: String) -> Result<Response<Bytes>, Error> {
    let command = tasks::transition::Command { principal: call.principal, task, step };
    let tasks::transition::Outcome { before, task } =
        tasks::transition::run(call.plane.orchestration()?, command).await?;
    let ended = Ended {
        cancelled: task.status == Status::Cancelled,
        status: task.status,
        old_status: before,
        task_id: task.id,
        reason,
    };
    Ok(json(StatusCode::OK, &ended))
}

async fn retry(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let command = tasks::transition::Command { principal: call.principal.clone(), task, step: Step::Retry };
    let outcome = tasks::transition::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &outcome.task)))
}

async fn of_sandbox(call: Call) -> Result<Response<Bytes>, Error> {
    let command = tasks::of_sandbox::Command { sandbox: call.sandbox()?, principal: call.principal.clone() };
    let task = tasks::of_sandbox::run(tasks::of_sandbox::Deps { store: &call.plane.store }, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn complete(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let complete = Complete::decode(&call.body)?;
    let deps = tasks::complete::Deps { base: call.plane.orchestration()?, quotas: call.plane.quota_deps() };
    let body_bytes = call.body.len() as u64;
    let command = tasks::complete::Command { principal: call.principal, sandbox, complete, body_bytes };
    Ok(json(StatusCode::OK, &tasks::complete::run(deps, command).await?))
}

async fn validate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let review = Review::decode(&call.body)?;
    let command = tasks::review::Command { principal: call.principal, sandbox, review };
    Ok(json(StatusCode::OK, &tasks::review::run(call.plane.orchestration()?, command).await?))
}

/// The task in the path.
pub(super) fn task(call: &Call) -> Result<TaskId, Error> {
    Ok(TaskId::parse(call.parameters.first().cloned().unwrap_or_default())?)
}

pub(super) fn render(call: &Call, task: &Task) -> TaskOut {
    TaskOut::new(task, &call.plane.settings.orchestration.weights, call.plane.clock.now())
}
