//! Terminates a sandbox: it accepts no more messages, and the messages in its mailbox are cancelled.

use crate::error::{Error, chain};
use crate::events::emit::{EventBatch, Written};
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, messages, reconcile, visibility};
use contract::jobs::Job;
use contract::payloads::{MessageCancelled, SandboxEnd, SandboxTerminated};
use domain::access::Principal;
use domain::attempt;
use domain::message::{Receipt, Sender, State};
use domain::sandbox::Ended;
use domain::sandbox::transitions::Trigger;
use domain::{MessageId, Sandbox, SandboxId, Source, Timestamp};
use store::JobQueue;
use store::ledger::Change;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub messages: messages::Deps<'a>,
    pub orchestration_jobs: &'a JobQueue,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    /// For people.
    pub reason: String,
}

pub type Outcome = Sandbox;

/// Maximum number of messages to cancel in one transaction, with two items each.
const MAX_CANCELLED: usize = 25;

/// Idempotent: a retry completes what the first call may have left over. The first reason is kept.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = end_and_cancel(deps.messages, command).await?;
    if sandbox.needs_reconcile() {
        reconcile::jobs::enqueue(
            deps.orchestration_jobs,
            &Job::ReconcileSandbox { sandbox_id: sandbox.id.clone() },
        )
        .await;
    }
    Ok(sandbox)
}

async fn end_and_cancel(deps: messages::Deps<'_>, command: Command) -> Result<Sandbox, Error> {
    let sandbox_id = &command.sandbox;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, sandbox_id).await;
    loop {
        let sandbox = guard.load(sandbox_id).await?;
        visibility::check(&command.principal, &sandbox)?;
        let now = deps.clock.now();
        let (after, batch) = match (sandbox.status().is_final(), sandbox.activity.waiting) {
            (false, _) => end(deps.ids, &sandbox, &command, now),
            (true, 0) => {
                guard.cache(sandbox.clone());
                drop(guard);
                // What is left over is swept.
                if let Err(error) = deps.mailboxes.remove(sandbox_id).await {
                    let reason = chain(&error);
                    tracing::warn!(sandbox.id = %sandbox_id, "Could not delete the queues of {sandbox_id}: {reason}");
                }
                return Ok(sandbox);
            }
            (true, _) => cancel(deps, &sandbox, now).await?,
        };
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => guard.advance(*sandbox),
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// Cancels the messages in the mailbox of a sandbox that has ended, and deletes the mailbox.
pub(crate) async fn clear_mailbox(
    deps: messages::Deps<'_>,
    sandbox_id: &SandboxId,
) -> Result<Sandbox, Error> {
    let reason = String::new();
    end_and_cancel(deps, Command { principal: Principal::plane(), sandbox: sandbox_id.clone(), reason }).await
}

fn end<'a>(
    ids: &'a dyn IdSource,
    sandbox: &Sandbox,
    command: &Command,
    now: Timestamp,
) -> (Sandbox, EventBatch<'a>) {
    let reason = command.reason.clone();
    let mut batch = EventBatch::new(ids);
    let by = Some(Sender::of(&command.principal));
    let terminated = SandboxTerminated { reason: reason.clone(), by, end: SandboxEnd::default() };
    batch.event(Source::System, &terminated);
    let mut after = batch.sandbox_after(sandbox);
    after.transition(Trigger::Terminated);
    if after.assignment.is_some() {
        after.activity.outcome.get_or_insert(attempt::Outcome::Cancelled { reason: reason.clone(), at: now });
        if let Some(provisioning) = &mut after.activity.provisioning {
            // Pending retries of provisioning are obsolete.
            (provisioning.retry_at, provisioning.attempts) = (None, 0);
        }
    }
    after.activity.ended = Some(Ended { at: now, reason });
    (after, batch)
}

/// Cancels messages that no worker has confirmed.
async fn cancel<'a>(
    deps: messages::Deps<'a>,
    sandbox: &Sandbox,
    now: Timestamp,
) -> Result<(Sandbox, EventBatch<'a>), Error> {
    let waiting = deps.store.waiting_messages(&sandbox.id, MAX_CANCELLED).await?;
    let ids: Vec<MessageId> = waiting.into_iter().map(|message| message.id).collect();
    let mut batch = EventBatch::new(deps.ids);
    for mut message in deps.store.messages(&sandbox.id, &ids).await? {
        let detail = "the sandbox ended";
        message.advance(Receipt { state: State::Cancelled, at: now, detail: Some(detail.into()) });
        let (message_id, detail) = (message.id.clone(), Some(detail.to_owned()));
        batch.event(Source::System, &MessageCancelled { message_id, detail, by: None });
        batch.changes.push(Change::Resolved(message));
    }
    let mut after = batch.sandbox_after(sandbox);
    if batch.changes.is_empty() {
        // The counter was wrong. Without this, the loop of the caller would never end.
        after.activity.waiting = 0;
    }
    Ok((after, batch))
}
