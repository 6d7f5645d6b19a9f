//! Gives a task its branch, before a sandbox is paid for.

use super::Deps;
use super::provision::Work;
use crate::error::chain;
use crate::orchestration::Repository;
use crate::tasks;
use crate::tasks::branch::NotCreated;
use code_hosts::Reason;
use domain::attempt::Attempt;
use domain::task::TaskBranch;
use domain::ticket::ANALYZE_REQUIREMENTS;
use domain::{Sandbox, Task, Ticket};
use providers::{Failure, FailureClass};

/// Checks the repository, creates the branch, and records it with the task. Idempotent. Retries and revisions continue on
/// the branch that the task has.
pub(super) async fn prepare(deps: Deps<'_>, sandbox: &Sandbox, work: &mut Work) -> Result<(), Failure> {
    // An analysis changes nothing.
    if work.task.task_type == ANALYZE_REQUIREMENTS {
        return Ok(());
    }
    let Some(repository) = repository(deps, &work.task, work.ticket.as_ref())? else { return Ok(()) };
    let base = work.task.branch.as_ref().map(|branch| branch.base.clone());
    let base = base.or_else(|| work.task.execution.base_branch.clone());
    let base = repository.host.check(base.as_deref()).await.map_err(of_code_host)?;
    if work.task.branch.is_some() {
        return Ok(());
    }
    let created = tasks::branch::create(deps.store, &repository, &work.task, base).await;
    let branch = created.map_err(|error| match error {
        NotCreated::CodeHost(failure) => of_code_host(failure),
        NotCreated::Store(error) => of_store(error),
    })?;
    record(deps, sandbox, work, &repository.name, branch).await
}

/// The repository of a task at its code host, if this plane has one for it.
pub(super) fn repository(
    deps: Deps<'_>,
    task: &Task,
    ticket: Option<&Ticket>,
) -> Result<Option<Repository>, Failure> {
    deps.code_hosts.repository(deps.orchestration, task, ticket).map_err(of_code_host)
}

/// A failure of a code host as a failure of the stage, with what a person can do about it.
pub(super) fn of_code_host(failure: code_hosts::Failure) -> Failure {
    let class = match failure.reason {
        Reason::Busy { retry_after_secs } => FailureClass::Busy { retry_after_secs },
        reason if reason.is_transient() => FailureClass::Unreachable,
        _ => FailureClass::Refused,
    };
    Failure { class, message: format!("{failure}. {}", failure.reason.remedy()) }
}

/// Records the branch. The task may have changed since it was read.
async fn record(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    work: &mut Work,
    repository: &str,
    branch: TaskBranch,
) -> Result<(), Failure> {
    let Some(assignment) = &sandbox.assignment else { return Ok(()) };
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    loop {
        // A caller may have started the branch at the same time: it is the same one.
        if work.task.branch.as_ref().is_some_and(|known| known.name == branch.name) {
            return Ok(());
        }
        let now = deps.clock.now();
        let Some(transition) = work.task.branch_created(&attempt, branch.clone(), repository, now) else {
            return Err(Failure::unreachable("the task no longer needs this sandbox"));
        };
        let written = tasks::commit::write(*deps, &work.task, transition).await;
        if let Some(task) = written.map_err(|error| Failure::unreachable(chain(&error)))? {
            work.task = task;
            return Ok(());
        }
        let current = deps.store.task(&work.task.id).await.map_err(of_store)?;
        work.task = current.ok_or_else(|| Failure::refused("the task does not exist"))?;
    }
}

fn of_store(error: store::error::Error) -> Failure {
    Failure::unreachable(chain(&error))
}
