//! Reads the feedback on the pull request of a task, and starts work on what is new: another attempt on the same branch,
//! or a message to the agent that works on it now. When a round is complete, posts the replies first.

use super::{Deps, Open, PERMANENT_SECS, TRANSIENT_SECS, postpone, reply};
use crate::conflict_retry::ConflictRetry;
use crate::error::{Error, chain};
use crate::{messages, tasks};
use code_hosts::PullRequestState;
use contract::messages::Send;
use domain::access::Principal;
use domain::feedback::{Decision, Feedback, message};
use domain::message::{Draft, MessageType};
use domain::task::Status;
use domain::task::transitions::Transition;
use domain::{Task, TaskId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub task: TaskId,
    /// When a webhook said that the pull request has changed; `None` if it is read only when that is due.
    pub changed_at: Option<Timestamp>,
}

pub type Outcome = ();

/// Idempotent: what an agent was told is recorded with the task, under the condition that no other process has changed
/// it. So a webhook that arrives twice, and a poll at the same time, are one round.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { task: id, changed_at } = command;
    let (mut retry, mut found) = (ConflictRetry::new(deps.base.clock), None);
    loop {
        let Some(task) = deps.base.store.task(&id).await? else { return Ok(()) };
        let now = deps.base.clock.now();
        if !matches!(task.status, Status::Running | Status::Completed) {
            return Ok(());
        }
        let is_due = task.reads_feedback_at().is_some_and(|at| at <= now);
        let Some(open) = Open::of(deps, &task).await? else {
            if is_due {
                wait_for_credential(deps, &task, now).await?;
            }
            return Ok(());
        };
        if task.status == Status::Completed && open.rounds.round.is_some() {
            // Another process posts the replies.
            if !is_due {
                return Ok(());
            }
            if reply::run(deps, &open).await?.is_none() {
                retry.conflict().await?;
            }
            continue;
        }
        if task.status == Status::Running {
            send_messages(deps, &open).await?;
        }
        let is_news = changed_at.is_some_and(|at| open.rounds.read_at.is_none_or(|read_at| read_at <= at));
        if !is_due && !is_news {
            return Ok(());
        }
        // After a conflict the same feedback is decided upon again.
        if found.is_none() {
            found = match open.repository.host.feedback(open.link.number).await {
                Ok(Some(read)) => Some((read, now)),
                Ok(None) => {
                    let message = format!("there is no pull request {}", open.link.number);
                    let failure = code_hosts::Failure::new(code_hosts::Reason::NotFound, message);
                    postpone(deps, &task, &failure).await?;
                    return Ok(());
                }
                Err(failure) => {
                    // A conflict is another process that reads it.
                    postpone(deps, &task, &failure).await?;
                    return Ok(());
                }
            };
        }
        let Some((read, read_at)) = &found else { return Ok(()) };
        let transition = match &read.pull_request.state {
            PullRequestState::Merged { commit } => task.merged(&read.pull_request.head_commit, commit, now),
            PullRequestState::Closed => task.pull_request_closed(now),
            PullRequestState::Open => decide(deps, &open, &super::feedback(read.clone()), *read_at),
        };
        let Some(transition) = transition else { return Ok(()) };
        let Some(after) = tasks::commit::write(deps.base, &task, transition).await? else {
            retry.conflict().await?;
            continue;
        };
        if after.status == Status::Running
            && let Some(open) = Open::of(deps, &after).await?
        {
            send_messages(deps, &open).await?;
        }
        return Ok(());
    }
}

/// The operator has removed the credential since, and may add it again.
async fn wait_for_credential(deps: Deps<'_>, task: &Task, now: Timestamp) -> Result<(), Error> {
    if let Some(transition) = task.feedback_postponed(PERMANENT_SECS, now) {
        // A conflict is another process that does the same.
        tasks::commit::write(deps.base, task, transition).await?;
    }
    Ok(())
}

fn decide(deps: Deps<'_>, open: &Open<'_>, feedback: &Feedback, now: Timestamp) -> Option<Transition> {
    let Open { task, rounds, .. } = open;
    if open.is_merging {
        return task.feedback_postponed(TRANSIENT_SECS, now);
    }
    let orchestration = deps.base.orchestration;
    let is_at_work = task.status == Status::Running;
    match rounds.decide(feedback, orchestration.max_feedback_rounds, is_at_work) {
        Decision::Nothing => task.feedback_read(feedback, now),
        Decision::AskPerson(remarks) => task.feedback_left(feedback, &remarks, now),
        Decision::Work(remarks) if is_at_work => {
            task.feedback_sent(feedback, &remarks, &deps.base.ids.message(), now)
        }
        Decision::Work(remarks) => task.revise_for_feedback(feedback, &remarks, &orchestration.weights, now),
    }
}

/// Sends the messages of the round that the agent works on. They are recorded before they are sent, so this is repeated
/// until they are. Idempotent by their ids.
async fn send_messages(deps: Deps<'_>, open: &Open<'_>) -> Result<(), Error> {
    let (Some(round), Some(sandbox)) = (&open.rounds.round, &open.task.sandbox) else { return Ok(()) };
    // The prompt of a later attempt has all points.
    for planned in round.messages.iter().filter(|message| message.sandbox == *sandbox) {
        let text = message(round, planned, &open.link.url, &open.branch.base);
        let draft = Draft::new(MessageType::System, &text)?;
        let command = messages::send::Command {
            principal: Principal::plane(),
            sandbox: sandbox.clone(),
            send: Send { id: Some(planned.id.clone()), draft },
        };
        let send = messages::send::Deps {
            messages: deps.messages,
            orchestration_jobs: deps.base.orchestration_jobs,
        };
        match messages::send::run(send, command).await {
            Ok(_) => {}
            // The sandbox has ended, or its mailbox is full. The end of the round makes the points new again.
            Err(error @ (Error::Conflict { .. } | Error::NotFound(_))) => {
                tracing::info!(sandbox.id = %sandbox, "Could not tell {sandbox} about feedback: {}", chain(&error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a sweep has to enqueue a job for the task.
pub(crate) fn is_due(task: &Task, now: Timestamp) -> bool {
    task.reads_feedback_at().is_some_and(|at| at <= now)
}
