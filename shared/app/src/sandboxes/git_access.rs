//! Gives a worker access to the repository of its task.

use crate::Clock;
use crate::error::Error;
use crate::orchestration::{CodeHosts, Orchestration};
use crate::tasks::pull_request::of_code_host;
use crate::visibility::check_report;
use contract::ProblemCode;
use contract::sandboxes::GitAccess;
use domain::access::Principal;
use domain::attempt::Attempt;
use domain::{SandboxId, Timestamp};
use serde_json::json;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub orchestration: &'a Orchestration,
    pub code_hosts: &'a CodeHosts,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
}

pub type Outcome = GitAccess;

/// Only the latest attempt of a task has access, so that an earlier one cannot write to the branch. It keeps the access for
/// a while after its end, because the worker pushes what the agent has done until then.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = deps.store.sandbox(&command.sandbox).await?;
    let sandbox = sandbox.ok_or_else(|| Error::no_sandbox(&command.sandbox))?;
    check_report(&command.principal, &sandbox, deps.clock.now())?;
    let id = &sandbox.id;
    let no_repository = || {
        let detail =
            format!("The task of sandbox {id} has no repository of which this plane has a credential.");
        Error::conflict(ProblemCode::NoRepository, detail, json!({}))
    };
    let assignment = sandbox.assignment.as_ref().ok_or_else(no_repository)?;
    let attempt = Attempt { number: assignment.attempt, sandbox: id.clone() };
    let task = deps.store.task(&assignment.task).await?;
    let task = task.filter(|task| task.is_current(&attempt)).ok_or_else(|| {
        let detail = format!("Sandbox {id} is not the latest attempt of task {}.", assignment.task);
        Error::conflict(ProblemCode::TaskMismatch, detail, json!({}))
    })?;
    let ticket = match &task.ticket {
        Some(id) => deps.store.ticket(id).await?,
        None => None,
    };
    let repository = deps.code_hosts.repository(deps.orchestration, &task, ticket.as_ref());
    let repository = repository.map_err(of_code_host)?.ok_or_else(no_repository)?;
    let access = repository.host.git_access().await.map_err(of_code_host)?;
    Ok(GitAccess {
        url: access.url,
        username: access.username,
        token: access.token.map(|token| token.reveal().to_owned()),
        expires_at: access.expires_at_secs.map(Timestamp::from_secs),
    })
}
