//! Branches and pull requests of tasks.

use super::endpoint::ok;
use super::tasks::{render, task};
use super::{Call, Endpoint, json};
use app::{Error, feedback, sandboxes, tasks};
use bytes::Bytes;
use contract::ProblemCode::{
    CodeHostRefused, NoBranch, NoPullRequest, NoRepository, TaskActive, TaskMismatch,
};
use contract::requests::MergeTask;
use contract::sandboxes::GitAccess;
use contract::tasks::{MergeRequest, MergedOut, PullRequestOut, TaskDiff, TaskOut};
use http::{Response, StatusCode};

/// `POST /api/v1/sandboxes/{id}/git-access`.
pub const GIT_ACCESS: Endpoint = Endpoint::new(|call| Box::pin(git_access(call)), &[ok::<GitAccess>()])
    .problems(&[TaskMismatch, NoRepository, CodeHostRefused]);
/// `GET /api/v1/tasks/{id}/diff`.
pub const DIFF: Endpoint =
    Endpoint::new(|call| Box::pin(diff(call)), &[ok::<TaskDiff>()]).problems(&[NoBranch, CodeHostRefused]);
/// `GET /api/v1/tasks/{id}/pull-request`.
pub const PULL_REQUEST: Endpoint =
    Endpoint::new(|call| Box::pin(pull_request(call, false)), &[ok::<PullRequestOut>()])
        .problems(&[NoBranch, CodeHostRefused]);
/// `POST /api/v1/tasks/{id}/pull-request`.
pub const OPEN_PULL_REQUEST: Endpoint =
    Endpoint::new(|call| Box::pin(pull_request(call, true)), &[ok::<PullRequestOut>()])
        .problems(&[NoBranch, CodeHostRefused]);
/// `POST /api/v1/tasks/{id}/merge`.
pub const MERGE: Endpoint = Endpoint::new(|call| Box::pin(merge(call)), &[ok::<MergedOut>()])
    .optional_body::<MergeTask>()
    .problems(&[NoBranch, NoPullRequest, TaskActive, CodeHostRefused]);

/// `POST /api/v1/tasks/{id}/feedback-rounds`.
pub const REQUEST_FEEDBACK: Endpoint =
    Endpoint::new(|call| Box::pin(request_feedback(call)), &[ok::<TaskOut>()]).problems(&[NoPullRequest]);

async fn git_access(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let deps = sandboxes::git_access::Deps {
        store: &call.plane.store,
        clock: call.plane.clock.as_ref(),
        orchestration: &call.plane.settings.orchestration,
        code_hosts: call.plane.code_hosts()?,
    };
    let command = sandboxes::git_access::Command { principal: call.principal, sandbox };
    Ok(json(StatusCode::OK, &sandboxes::git_access::run(deps, command).await?))
}

async fn diff(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let command = tasks::diff::Command { principal: call.principal.clone(), task };
    Ok(json(StatusCode::OK, &tasks::diff::run(call.plane.pull_request_deps()?, command).await?))
}

async fn pull_request(call: Call, open: bool) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let command = tasks::pull_request::Command { principal: call.principal.clone(), task, open };
    Ok(json(StatusCode::OK, &tasks::pull_request::run(call.plane.pull_request_deps()?, command).await?))
}

async fn request_feedback(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let command = feedback::request::Command { principal: call.principal.clone(), task };
    let task = feedback::request::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &render(&call, &task)))
}

async fn merge(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let request = MergeRequest::decode(&call.body)?;
    let command = tasks::merge::Command { principal: call.principal.clone(), task, request };
    Ok(json(StatusCode::OK, &tasks::merge::run(call.plane.pull_request_deps()?, command).await?))
}
