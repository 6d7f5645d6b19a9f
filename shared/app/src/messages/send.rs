//! Sends a message to a running agent.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, notify};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::ProblemCode;
use contract::messages::{MessageQueued, Send};
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, URGENT_RESERVE};
use domain::message::{Draft, MessageType, Position, Sender, State};
use domain::{Message, MessageId, Sandbox, SandboxId, Source};
use serde_json::json;
use store::ledger::Change;
use store::mailboxes::WakeUp;

pub use crate::messages::Deps;

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
    let id = send.id.unwrap_or_else(|| deps.ids.message());
    let message = store(deps, &principal, &sandbox_id, id, send.draft).await?;
    if message.is_waiting() {
        notify(deps.mailboxes, &sandbox_id, WakeUp::Message(&message.id)).await;
    }
    Ok(MessageQueued::new(sandbox_id, &message))
}

async fn store(
    deps: Deps<'_>,
    principal: &Principal,
    sandbox_id: &SandboxId,
    id: MessageId,
    draft: Draft,
) -> Result<Message, Error> {
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, sandbox_id).await;
    loop {
        let sandbox = guard.load(sandbox_id).await?;
        visibility::check(principal, &sandbox)?;
        if let Err(rejection) = admit(&sandbox, &draft) {
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
        batch.message(State::Queued, source(principal, draft.message_type), &event_data(&message));
        let after = batch.sandbox_after(&sandbox);
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                return Ok(message);
            }
            Written::MessageExists(known) => return first_response(*known, &draft),
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
        }
    }
}

/// The source of the event. Messages of users are always theirs, whatever the type.
fn source(principal: &Principal, message_type: MessageType) -> Source {
    match (principal, message_type) {
        (Principal::User { .. }, _)
        | (_, MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop) => Source::User,
        (_, MessageType::Guidance) => Source::Guardian,
        (_, MessageType::System) => Source::System,
    }
}

fn admit(sandbox: &Sandbox, draft: &Draft) -> Result<(), Error> {
    visibility::check_not_ended(sandbox)?;
    let room = if draft.message_type.is_urgent() { URGENT_RESERVE } else { 0 };
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

/// The same fields as the event of OmoiOS, and in addition the sender and the full text.
fn event_data(message: &Message) -> serde_json::Value {
    json!({
        "message_id": message.id,
        "message_type": message.message_type,
        "content": message.content,
        "priority": if message.message_type.is_urgent() { "high" } else { "normal" },
        "sender": message.sender,
    })
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
        let refused = |sandbox: &Sandbox, draft: &Draft| match admit(sandbox, draft) {
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
