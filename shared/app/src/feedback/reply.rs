//! Posts what the agent answers to the points of a round, and ends the round.

use super::{Deps, Open, postpone};
use crate::error::Error;
use crate::tasks;
use code_hosts::Failure;
use domain::event::catalogue;
use domain::event::payloads::AgentCompleted;
use domain::feedback::{self, Round};
use domain::message::State;
use domain::{MessageId, Task};

/// For this time no other process posts the replies: more than all requests to a code host take.
const LEASE_SECS: i64 = 180;

/// Returns `None` if another process has changed the task. Replies that were posted before are not posted again.
pub(super) async fn run(deps: Deps<'_>, open: &Open<'_>) -> Result<Option<()>, Error> {
    let Open { task, rounds, repository, .. } = open;
    let Some(round) = &rounds.round else { return Ok(Some(())) };
    let Some(lease) = task.feedback_postponed(LEASE_SECS, deps.base.clock.now()) else { return Ok(None) };
    let Some(task) = tasks::commit::write(deps.base, task, lease).await? else { return Ok(None) };
    let verdicts = feedback::answers(round, &output(&task));
    // The result names the commit that the pull request has since the agent has finished.
    let commit = open.link.commit.as_str();
    let replies = feedback::replies(round, &verdicts, commit, round.commit != commit);
    let replies: Vec<code_hosts::Reply> = replies.into_iter().map(of_domain).collect();
    if let Err(failure) = repository.host.reply(open.link.number, &replies).await {
        if failure.reason.is_transient() {
            return postpone(deps, &task, &failure).await;
        }
        // The event has the answers, and a failure that stays must not end all further rounds.
        warn(&task, &failure);
    }
    let undelivered = undelivered(deps, &task, round).await?;
    let now = deps.base.clock.now();
    let Some(answered) = task.feedback_answered(&verdicts, commit, &undelivered, now) else {
        return Ok(None);
    };
    Ok(tasks::commit::write(deps.base, &task, answered).await?.map(drop))
}

/// The last message of the agent.
fn output(task: &Task) -> String {
    let result: Option<AgentCompleted> = task.result.as_ref().and_then(catalogue::read);
    let report = result.unwrap_or_default().report;
    let texts = [Some(report.final_output), report.output];
    texts.into_iter().flatten().find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// Messages of the round that the agent of the current attempt did not get.
async fn undelivered(deps: Deps<'_>, task: &Task, round: &Round) -> Result<Vec<MessageId>, Error> {
    let Some(sandbox) = &task.sandbox else { return Ok(Vec::new()) };
    let sent = round.messages.iter().filter(|message| message.sandbox == *sandbox);
    let mut missing: Vec<MessageId> = sent.map(|message| message.id.clone()).collect();
    if missing.is_empty() {
        return Ok(missing);
    }
    let reached = [State::Delivered, State::Started, State::Completed];
    for message in deps.base.store.messages(sandbox, &missing.clone()).await? {
        let has_reached = message.receipts.iter().any(|receipt| reached.contains(&receipt.state));
        if has_reached && message.state() != State::Cancelled {
            missing.retain(|id| *id != message.id);
        }
    }
    Ok(missing)
}

fn of_domain(reply: feedback::Reply) -> code_hosts::Reply {
    let feedback::Reply { thread, key, text, resolves } = reply;
    code_hosts::Reply { thread, key, text, resolves }
}

fn warn(task: &Task, failure: &Failure) {
    tracing::warn!(task.id = %task.id, "Could not reply to the feedback on task {}: {failure}. {}", task.id, failure.reason.remedy());
}
