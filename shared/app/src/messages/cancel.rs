//! Takes a message back that its worker has not confirmed.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, ring};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::messages::MessageRecord;
use domain::access::Principal;
use domain::message::{Receipt, Sender, State};
use domain::{Message, MessageId, SandboxId, Source};
use serde_json::json;
use store::ledger::Change;
use store::mailboxes::WakeUp;

pub use crate::messages::Deps;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// Which message.
    pub message: MessageId,
}

/// The message, as it is now.
pub type Outcome = MessageRecord;

/// A repeat changes nothing. One that the worker holds and has not confirmed may have reached the agent all the same.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, message: id } = command;
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, &sandbox).await;
    loop {
        let head = turn.seen(&sandbox).await?;
        visibility::check(&principal, &head)?;
        let known = deps.store.messages(&sandbox, std::slice::from_ref(&id)).await?.pop();
        let Some(mut message) = known else { return Err(Error::NotFound(format!("Message {id}"))) };
        if !message.is_waiting() {
            turn.keep(head);
            return settled_before(message);
        }
        let (now, detail) = (deps.clock.now(), "taken back");
        message.advance(Receipt { state: State::Cancelled, at: now, detail: Some(detail.into()) });
        let mut tale = EventBatch::new(deps.ids);
        tale.changes.push(Change::Settled(message.clone()));
        let data = json!({"message_id": id, "detail": detail, "by": Sender::of(&principal)});
        tale.message(State::Cancelled, Source::User, &data);
        let after = tale.sandbox_after(&head);
        match tale.write(deps.store, &head, &after, now).await? {
            Written::Stored(head) => {
                let version = head.version;
                turn.keep(*head);
                drop(turn);
                if after.activity.waiting > 0 {
                    ring(deps.mailboxes, &sandbox, WakeUp::Settled(version)).await;
                }
                return Ok(message.into());
            }
            Written::Conflict(head) => turn.lost(head).await?,
            Written::MessageKnown(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

fn settled_before(message: Message) -> Result<Outcome, Error> {
    if message.state() == State::Cancelled {
        return Ok(message.into());
    }
    Err(Error::conflict(
        "message_delivered",
        format!("Message {} was given to the agent already; send an interrupt to stop it.", message.id),
        json!({"state": message.state()}),
    ))
}
