//! Feedback on the pull requests of tasks: reading it, working on it, and replying. [`domain::feedback`] has the rules.

mod convert;
pub mod of_pull_request;
pub mod read;
mod reply;
pub mod request;

use crate::error::Error;
use crate::orchestration::{self, CodeHosts, Repository};
use crate::{messages, tasks};
use code_hosts::Failure;
pub(crate) use convert::feedback;
use domain::Task;
use domain::feedback::Rounds;
use domain::task::{PullRequestLink, TaskBranch};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    pub code_hosts: &'a CodeHosts,
    pub messages: messages::Deps<'a>,
}

/// The open pull request of a task, with its repository.
struct Open<'a> {
    task: &'a Task,
    branch: &'a TaskBranch,
    link: &'a PullRequestLink,
    rounds: &'a Rounds,
    repository: Repository,
    /// The ticket merges the branch: no round starts meanwhile, because two agents would work on it.
    is_merging: bool,
}

impl<'a> Open<'a> {
    /// `None` if the task has no open pull request, or if this plane has no credential for it any more.
    async fn of(deps: Deps<'_>, task: &'a Task) -> Result<Option<Self>, Error> {
        let (Some(branch), Some(link), Some(rounds)) = (&task.branch, task.open_pull_request(), &task.rounds)
        else {
            return Ok(None);
        };
        let ticket = match &task.ticket {
            Some(id) => deps.base.store.ticket(id).await?,
            None => None,
        };
        let repository = deps.code_hosts.repository(deps.base.orchestration, task, ticket.as_ref());
        match repository {
            Ok(Some(repository)) => {
                let merge = ticket.as_ref().and_then(|ticket| ticket.merge.as_ref());
                let is_merging = merge.is_some_and(|merge| merge.handles(&task.id));
                Ok(Some(Self { task, branch, link, rounds, repository, is_merging }))
            }
            Ok(None) => Ok(None),
            Err(failure) => {
                tracing::warn!(task.id = %task.id, "Could not open the repository of task {}: {failure}", task.id);
                Ok(None)
            }
        }
    }
}

/// Delay after a failure of a code host that a person has to correct.
const PERMANENT_SECS: i64 = 3_600;
/// Delay after another failure, if the code host names none.
const TRANSIENT_SECS: i64 = 60;

/// Reads the pull request later, because its code host could not be used now. Returns `None` on a conflict.
async fn postpone(deps: Deps<'_>, task: &Task, failure: &Failure) -> Result<Option<()>, Error> {
    let secs = match failure.reason {
        code_hosts::Reason::Busy { retry_after_secs: Some(secs) } => {
            i64::try_from(secs).unwrap_or(PERMANENT_SECS).clamp(TRANSIENT_SECS, PERMANENT_SECS)
        }
        reason if reason.is_transient() => TRANSIENT_SECS,
        _ => PERMANENT_SECS,
    };
    tracing::warn!(task.id = %task.id, "Could not read the feedback on task {}; the next attempt is in {secs} s: {failure}", task.id);
    let Some(transition) = task.feedback_postponed(secs, deps.base.clock.now()) else { return Ok(Some(())) };
    Ok(tasks::commit::write(deps.base, task, transition).await?.map(drop))
}
