//! Cancels a message that its worker has not confirmed, or that is undeliverable.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written};
use crate::messages::{known_message, queue};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::ProblemCode;
use contract::messages::MessageRecord;
use contract::payloads::MessageCancelled;
use domain::message::{Receipt, Sender, State};
use domain::{Message, Source};
use serde_json::json;
use store::ledger::Change;

pub use crate::messages::{Deps, OneMessage as Command};

pub type Outcome = MessageRecord;

/// Idempotent. A message that the worker has fetched but not confirmed may have reached the agent nevertheless.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, message: id } = command;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &sandbox_id).await;
    loop {
        let sandbox = guard.load(&sandbox_id).await?;
        visibility::check(&principal, &sandbox)?;
        let mut message = known_message(deps.store, &sandbox_id, &id).await?;
        let was_waiting = message.is_waiting();
        if message.state() > State::Undeliverable {
            guard.cache(sandbox);
            return already_resolved(message);
        }
        let (now, detail) = (deps.clock.now(), "cancelled by the sender");
        message.advance(Receipt { state: State::Cancelled, at: now, detail: Some(detail.into()) });
        let mut batch = EventBatch::new(deps.ids);
        batch.changes.push(match was_waiting {
            true => Change::Resolved(message.clone()),
            false => Change::Updated(message.clone()),
        });
        let (detail, by) = (Some(detail.to_owned()), Some(Sender::of(&principal)));
        batch.event(Source::User, &MessageCancelled { message_id: id.clone(), detail, by });
        let after = batch.sandbox_after(&sandbox);
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                drop(guard);
                queue::delete_copies(deps.mailboxes, &sandbox_id, [&message]).await;
                return Ok(message.into());
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

fn already_resolved(message: Message) -> Result<Outcome, Error> {
    if message.state() == State::Cancelled {
        return Ok(message.into());
    }
    Err(Error::conflict(
        ProblemCode::MessageDelivered,
        format!("Message {} was already delivered to the agent; send an interrupt to stop it.", message.id),
        json!({"state": message.state()}),
    ))
}
