//! Sends a message to a running agent.

use crate::error::{Error, chain};
use crate::events::emit::{EventBatch, Written};
use crate::messages::{self, queue};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::ProblemCode;
use contract::jobs::Job;
use contract::messages::{MessageQueued, Send};
use contract::payloads::{self, MessagePriority};
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, URGENT_RESERVE};
use domain::message::{Draft, MessageType, Position, Sender};
use domain::{Message, MessageId, Sandbox, SandboxId, Source};
use serde_json::json;
use std::time::Duration;
use store::JobQueue;
use store::ledger::Change;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub messages: messages::Deps<'a>,
    /// For the retry of a message that could not be put onto its queue.
    pub orchestration_jobs: &'a JobQueue,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub send: Send,
}

pub type Outcome = MessageQueued;

/// Idempotent by id: a retry sends nothing and gets the first response.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, send } = command;
    let id = send.id.unwrap_or_else(|| deps.messages.ids.message());
    let message = write(deps, &principal, &sandbox_id, id, send.draft).await?;
    Ok(MessageQueued::new(sandbox_id, &message))
}

/// Delays of the retries, in seconds. SQS blocks the name of a deleted queue for a minute. The ledger delivers the message
/// if a worker pulls before, or if all retries fail.
const RETRY_SECS: [u64; 4] = [1, 5, 30, 90];

/// Puts a stored message onto its queue. The ledger has it, so a failure is only logged and retried by a job.
pub(crate) async fn enqueue(deps: Deps<'_>, sandbox: &SandboxId, message: &Message) {
    if message.is_waiting()
        && let Err(error) = queue::enqueue(deps.messages.mailboxes, sandbox, message).await
    {
        retry_later(deps, sandbox, &message.id, 0, &error).await;
    }
}

/// Retries to put a stored message onto its queue.
pub async fn retry(
    deps: Deps<'_>,
    sandbox: &SandboxId,
    message: &MessageId,
    failures: usize,
) -> Result<(), Error> {
    let stored = deps.messages.store.messages(sandbox, std::slice::from_ref(message)).await?.pop();
    if let Some(stored) = stored.filter(Message::is_waiting)
        && let Err(error) = queue::enqueue(deps.messages.mailboxes, sandbox, &stored).await
    {
        retry_later(deps, sandbox, message, failures + 1, &error).await;
    }
    Ok(())
}

async fn retry_later(
    deps: Deps<'_>,
    sandbox: &SandboxId,
    message: &MessageId,
    failures: usize,
    error: &store::Error,
) {
    tracing::warn!(sandbox.id = %sandbox, "Could not put message {message} onto its queue: {}", chain(error));
    let Some(secs) = RETRY_SECS.get(failures) else { return };
    let job = Job::EnqueueMessage { sandbox_id: sandbox.clone(), message_id: message.clone(), failures };
    if let Err(error) = deps.orchestration_jobs.send(&job.encode(), Duration::from_secs(*secs)).await {
        tracing::warn!(sandbox.id = %sandbox, "Could not enqueue the retry of message {message}: {}", chain(&error));
    }
}

async fn write(
    deps: Deps<'_>,
    principal: &Principal,
    sandbox_id: &SandboxId,
    id: MessageId,
    draft: Draft,
) -> Result<Message, Error> {
    let (with_queue, deps) = (deps, deps.messages);
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, sandbox_id).await;
    loop {
        let sandbox = guard.load(sandbox_id).await?;
        visibility::check(principal, &sandbox)?;
        if let Err(rejection) = admit(&sandbox, draft.message_type) {
            // A retry gets the first response, even if the message would be rejected now.
            let known = deps.store.messages(sandbox_id, std::slice::from_ref(&id)).await?.pop();
            guard.cache(sandbox);
            return known.map_or(Err(rejection), |known| first_response(known, &draft));
        }
        let now = deps.clock.now();
        let place = Position { number: sandbox.seq + 1, queue_size: sandbox.activity.waiting + 1 };
        let message = Message::new(id.clone(), draft.clone(), Sender::of(principal), place, now);
        let mut batch = EventBatch::new(deps.ids);
        batch.changes.push(Change::Sent(message.clone()));
        batch.event(source(principal, draft.message_type), &queued(&message));
        let after = batch.sandbox_after(&sandbox);
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                // Before the lock is released, so that within one process the queue has the order of the ledger.
                enqueue(with_queue, sandbox_id, &message).await;
                return Ok(message);
            }
            Written::MessageExists(known) => {
                let known = first_response(*known, &draft)?;
                enqueue(with_queue, sandbox_id, &known).await;
                return Ok(known);
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
        }
    }
}

/// The source of the event. Messages of users are always theirs, whatever the type.
pub(super) fn source(principal: &Principal, message_type: MessageType) -> Source {
    match (principal, message_type) {
        (Principal::User { .. }, _)
        | (_, MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop) => Source::User,
        (_, MessageType::Guidance) => Source::Guardian,
        (_, MessageType::System) => Source::System,
    }
}

pub(super) fn admit(sandbox: &Sandbox, message_type: MessageType) -> Result<(), Error> {
    visibility::check_not_ended(sandbox)?;
    let room = if message_type.is_urgent() { URGENT_RESERVE } else { 0 };
    if sandbox.activity.waiting >= MAX_WAITING + room {
        return Err(Error::conflict(
            ProblemCode::MailboxFull,
            format!(
                "The mailbox of this sandbox is full: {} messages are waiting. Retry later.",
                sandbox.activity.waiting
            ),
            json!({"queue_size": sandbox.activity.waiting}),
        ));
    }
    Ok(())
}

fn first_response(known: Message, draft: &Draft) -> Result<Message, Error> {
    if known.matches(draft) {
        return Ok(known);
    }
    Err(Error::conflict(
        ProblemCode::MessageChanged,
        format!("Message {} was already sent with different content; nothing was sent.", known.id),
        json!({"message_id": known.id}),
    ))
}

pub(super) fn queued(message: &Message) -> payloads::MessageQueued {
    payloads::MessageQueued {
        message_id: message.id.clone(),
        message_type: message.message_type,
        content: message.content.clone(),
        priority: match message.message_type.is_urgent() {
            true => MessagePriority::High,
            false => MessagePriority::Normal,
        },
        sender: message.sender.clone(),
        version: None,
        by: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{OrgId, Timestamp};

    #[test]
    fn full_mailbox_still_accepts_urgent_messages() {
        let org = OrgId::parse("acme").unwrap();
        let mut sandbox = Sandbox::new(SandboxId::parse("s-1").unwrap(), org, None, Timestamp::from_secs(0));
        let draft = |message_type| Draft::new(message_type, "go on").unwrap();
        let refused = |sandbox: &Sandbox, draft: &Draft| match admit(sandbox, draft.message_type) {
            Err(Error::Conflict { code, .. }) => Some(code),
            _ => None,
        };
        sandbox.activity.waiting = MAX_WAITING - 1;
        assert_eq!(refused(&sandbox, &draft(MessageType::UserMessage)), None);
        sandbox.activity.waiting = MAX_WAITING;
        assert_eq!(refused(&sandbox, &draft(MessageType::UserMessage)), Some(ProblemCode::MailboxFull));
        assert_eq!(refused(&sandbox, &draft(MessageType::Interrupt)), None);
        assert_eq!(refused(&sandbox, &draft(MessageType::Stop)), None);
        sandbox.activity.waiting = MAX_WAITING + URGENT_RESERVE;
        assert_eq!(refused(&sandbox, &draft(MessageType::Interrupt)), Some(ProblemCode::MailboxFull));
    }
}
