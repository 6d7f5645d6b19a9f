//! Sends a message to a working agent.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, ring};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::messages::{MessageQueued, Send};
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, ROOM_FOR_URGENT};
use domain::message::{Draft, MessageType, Place, Sender, State};
use domain::{Message, MessageId, Sandbox, SandboxId, Source};
use serde_json::json;
use store::ledger::Change;
use store::mailboxes::WakeUp;

pub use crate::messages::Deps;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// To which sandbox.
    pub sandbox: SandboxId,
    /// What is said.
    pub send: Send,
}

/// It is stored, and will reach the worker.
pub type Outcome = MessageQueued;

/// A repeat with the same id sends nothing and gets the first answer.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, send } = command;
    let id = send.id.unwrap_or_else(|| deps.ids.message());
    let message = store(deps, &principal, &sandbox, id, send.draft).await?;
    if message.is_waiting() {
        ring(deps.mailboxes, &sandbox, WakeUp::Message(&message.id)).await;
    }
    Ok(MessageQueued::new(sandbox, &message))
}

async fn store(
    deps: Deps<'_>,
    principal: &Principal,
    sandbox: &SandboxId,
    id: MessageId,
    draft: Draft,
) -> Result<Message, Error> {
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, sandbox).await;
    loop {
        let head = turn.seen(sandbox).await?;
        visibility::check(principal, &head)?;
        if let Err(refusal) = admit(&head, &draft) {
            // A repeat of what was sent before it came to this is still a repeat.
            let known = deps.store.messages(sandbox, std::slice::from_ref(&id)).await?.pop();
            turn.keep(head);
            return known.map_or(Err(refusal), |known| first(known, &draft));
        }
        let now = deps.clock.now();
        let place = Place { number: head.seq + 1, queue_size: head.activity.waiting + 1 };
        let message = Message::new(id.clone(), draft.clone(), Sender::of(principal), place, now);
        let mut tale = EventBatch::new(deps.ids);
        tale.changes.push(Change::Sent(message.clone()));
        tale.message(State::Queued, source(principal, draft.message_type), &notice(&message));
        let after = tale.sandbox_after(&head);
        match tale.write(deps.store, &head, &after, now).await? {
            Written::Stored(head) => {
                turn.keep(*head);
                return Ok(message);
            }
            Written::MessageKnown(known) => return first(*known, &draft),
            Written::Conflict(head) => turn.lost(head).await?,
        }
    }
}

/// For whom the event speaks. Users speak for themselves, whatever they call it.
fn source(principal: &Principal, message_type: MessageType) -> Source {
    match (principal, message_type) {
        (Principal::User { .. }, _)
        | (_, MessageType::UserMessage | MessageType::Interrupt | MessageType::Stop) => Source::User,
        (_, MessageType::Guidance) => Source::Guardian,
        (_, MessageType::System) => Source::System,
    }
}

fn admit(head: &Sandbox, draft: &Draft) -> Result<(), Error> {
    visibility::alive(head)?;
    let room = if draft.message_type.is_urgent() { ROOM_FOR_URGENT } else { 0 };
    if head.activity.waiting >= MAX_WAITING + room {
        return Err(Error::conflict(
            "mailbox_full",
            format!(
                "{} messages wait for this sandbox's worker already; send it again later.",
                head.activity.waiting
            ),
            json!({"queue_size": head.activity.waiting}),
        ));
    }
    Ok(())
}

fn first(known: Message, draft: &Draft) -> Result<Message, Error> {
    if known.says(draft) {
        return Ok(known);
    }
    Err(Error::conflict(
        "message_changed",
        format!("Message {} was sent before and says something else; nothing was sent.", known.id),
        json!({"message_id": known.id}),
    ))
}

/// What the log says. OmoiOS's notice has the same fields, without who sent it and with a shorter text.
fn notice(message: &Message) -> serde_json::Value {
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
    fn a_full_mailbox_still_takes_what_is_urgent() {
        let org = OrgId::parse("acme").unwrap();
        let mut head = Sandbox::new(SandboxId::parse("s-1").unwrap(), org, None, Timestamp::from_secs(0));
        let draft = |message_type| Draft::new(message_type, "go on").unwrap();
        let refused = |head: &Sandbox, draft: &Draft| match admit(head, draft) {
            Err(Error::Conflict { code, .. }) => Some(code),
            _ => None,
        };
        head.activity.waiting = MAX_WAITING - 1;
        assert_eq!(refused(&head, &draft(MessageType::UserMessage)), None);
        head.activity.waiting = MAX_WAITING;
        assert_eq!(refused(&head, &draft(MessageType::UserMessage)), Some("mailbox_full"));
        assert_eq!(refused(&head, &draft(MessageType::Interrupt)), None);
        assert_eq!(refused(&head, &draft(MessageType::Stop)), None);
        head.activity.waiting = MAX_WAITING + ROOM_FOR_URGENT;
        assert_eq!(refused(&head, &draft(MessageType::Interrupt)), Some("mailbox_full"));
    }
}
