//! Tasks: the units of work of a ticket.
//!
//! A list is an object: `{tasks, next_cursor, has_more}`. OmoiOS returned a bare array, which cannot carry a cursor.

use super::{Call, Handler, json};
use app::events::history::Order;
use app::tasks::list::Filter;
use app::tasks::transition::Step;
use app::{Error, events, tasks};
use bytes::Bytes;
use contract::limits::MAX_PAGE;
use contract::tasks::{
    Complete, Create, DependsOn, Ended, Reason, Review, SANDBOX_TYPE, SetTimeout, TaskList, TaskOut, Update,
};
use domain::task::Status;
use domain::task::edits::Edit;
use domain::{Entity, Invalid, OrgId, ProjectId, SandboxId, Task, TaskId, TicketId};
use http::{Response, StatusCode};

/// `POST /api/v1/tasks`.
pub const CREATE: Handler = |call| Box::pin(create(call));
/// `GET /api/v1/tasks`.
pub const LIST: Handler = |call| Box::pin(list(call));
/// `GET /api/v1/tasks/{id}`.
pub const GET: Handler = |call| Box::pin(get(call));
/// `PATCH /api/v1/tasks/{id}`.
pub const UPDATE: Handler = |call| Box::pin(update(call));
/// `GET /api/v1/tasks/{id}/events`.
pub const EVENTS: Handler = |call| Box::pin(events(call));
/// `GET /api/v1/tasks/{id}/dependencies`.
pub const DEPENDENCIES: Handler = |call| Box::pin(dependencies(call));
/// `POST /api/v1/tasks/{id}/dependencies`.
pub const ADD_DEPENDENCIES: Handler = |call| Box::pin(add_dependencies(call));
/// `PUT /api/v1/tasks/{id}/dependencies`.
pub const REPLACE_DEPENDENCIES: Handler = |call| Box::pin(replace_dependencies(call));
/// `DELETE /api/v1/tasks/{id}/dependencies/{dependency_id}`.
pub const REMOVE_DEPENDENCY: Handler = |call| Box::pin(remove_dependency(call));
/// `POST /api/v1/tasks/{id}/fail`.
pub const FAIL: Handler = |call| Box::pin(fail(call));
/// `POST /api/v1/tasks/{id}/cancel`.
pub const CANCEL: Handler = |call| Box::pin(cancel(call));
/// `POST /api/v1/tasks/{id}/retry`.
pub const RETRY: Handler = |call| Box::pin(retry(call));
/// `POST /api/v1/tasks/{id}/set-timeout`.
pub const SET_TIMEOUT: Handler = |call| Box::pin(set_timeout(call));
/// `GET /api/v1/sandboxes/{id}/task`.
pub const OF_SANDBOX: Handler = |call| Box::pin(of_sandbox(call));
/// `POST /api/v1/sandboxes/{id}/task-complete`.
pub const COMPLETE: Handler = |call| Box::pin(complete(call));
/// `POST /api/v1/sandboxes/{id}/validation-result`.
pub const VALIDATE: Handler = |call| Box::pin(validate(call));

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
    let limit = call.query.number("limit", 1..=100)?.unwrap_or(50);
    let command = tasks::list::Command {
        org: call.query.get("org").map(OrgId::parse).transpose()?,
        filter: filter(&call)?,
        cursor: call.query.get("cursor").map(str::to_owned),
        limit: usize::try_from(limit).unwrap_or(50),
        principal: call.principal.clone(),
    };
    let page = tasks::list::run(tasks::list::Deps { store: &call.plane.store }, command).await?;
    let tasks = page.tasks.iter().map(|task| render(&call, task)).collect();
    let has_more = page.next_cursor.is_some();
    Ok(json(StatusCode::OK, &TaskList { tasks, next_cursor: page.next_cursor, has_more }))
}

fn filter(call: &Call) -> Result<Filter, Error> {
    let query = &call.query;
    let task_type = query.get("task_type").map(str::to_owned);
    let has_sandbox = query.one_of("has_sandbox", &["true", "false"])?.map(|value| value == "true");
    let by_type = task_type.as_deref() == Some(SANDBOX_TYPE);
    Ok(Filter {
        statuses: query.list("status").iter().map(|text| status(text)).collect::<Result<_, _>>()?,
        task_type: task_type.filter(|_| !by_type),
        phase: query.get("phase_id").map(str::to_owned),
        project: query.get("project_id").map(ProjectId::parse).transpose()?,
        ticket: query.get("ticket_id").map(TicketId::parse).transpose()?,
        sandbox: query.get("sandbox_id").map(SandboxId::parse).transpose()?,
        has_sandbox: has_sandbox.or(by_type.then_some(true)),
    })
}

fn status(text: &str) -> Result<Status, Error> {
    let known = Status::ALL.into_iter().find(|status| status.as_str() == text);
    known.ok_or_else(|| {
        let names = Status::ALL.map(Status::as_str).join(", ");
        Invalid::new("status", format!("must be one of {names}")).into()
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
    let SetTimeout(secs) = SetTimeout::decode(&call.body)?;
    apply_edit(call, task, Edit { timeout_secs: Some(secs), ..Edit::default() }).await
}

async fn apply_edit(call: Call, task: TaskId, edit: Edit) -> Result<Response<Bytes>, Error> {
    let command = tasks::update::Command { principal: call.principal.clone(), task, edit };
    let task = tasks::update::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn events(call: Call) -> Result<Response<Bytes>, Error> {
    let (task, query) = (task(&call)?, &call.query);
    let after_seq = query.number("after_seq", 0..=u64::MAX)?;
    let before_seq = query.number("before_seq", 1..=u64::MAX)?;
    let order = match query.one_of("order", &["newest", "oldest"])? {
        Some("oldest") => Order::Oldest,
        Some(_) => Order::Newest,
        // A request with only `after_seq` continues forward from there.
        None if after_seq.is_some() && before_seq.is_none() => Order::Oldest,
        None => Order::Newest,
    };
    let limit = query.number("limit", 1..=MAX_PAGE as u64)?.unwrap_or(100);
    let command = events::history::Command {
        entity: Entity::Task(task),
        after_seq: after_seq.unwrap_or(0),
        before_seq,
        order,
        limit: usize::try_from(limit).unwrap_or(MAX_PAGE),
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
    let Reason(reason) = Reason::decode(&call.body)?;
    let reason = reason.unwrap_or_else(|| "marked_failed_by_user".to_owned());
    end(call, task, Step::Fail { reason: reason.clone() }, reason).await
}

async fn cancel(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let Reason(reason) = Reason::decode(&call.body)?;
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
    let command = tasks::complete::Command { principal: call.principal, sandbox, complete };
    Ok(json(StatusCode::OK, &tasks::complete::run(call.plane.orchestration()?, command).await?))
}

async fn validate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let review = Review::decode(&call.body)?;
    let command = tasks::review::Command { principal: call.principal, sandbox, review };
    Ok(json(StatusCode::OK, &tasks::review::run(call.plane.orchestration()?, command).await?))
}

/// The task in the path.
fn task(call: &Call) -> Result<TaskId, Error> {
    Ok(TaskId::parse(call.parameters.first().cloned().unwrap_or_default())?)
}

fn render(call: &Call, task: &Task) -> TaskOut {
    TaskOut::new(task, &call.plane.settings.orchestration.weights, call.plane.clock.now())
}
