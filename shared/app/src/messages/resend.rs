//! Sends an undeliverable message again.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written};
use crate::messages::known_message;
use crate::messages::send::{admit, enqueue, queued, source};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::ProblemCode;
use contract::messages::MessageRecord;
use contract::payloads::MessageQueued;
use domain::message::{Position, Sender, State};
use serde_json::json;
use store::ledger::Change;

pub use crate::messages::OneMessage as Command;
pub use crate::messages::send::Deps;

pub type Outcome = MessageRecord;

/// Idempotent: a message that waits in the mailbox is returned as it is.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, message: id } = command;
    let messages = deps.messages;
    let mut guard = WriteGuard::acquire(messages.store, messages.locks, messages.clock, &sandbox_id).await;
    loop {
        let sandbox = guard.load(&sandbox_id).await?;
        visibility::check(&principal, &sandbox)?;
        let mut message = known_message(messages.store, &sandbox_id, &id).await?;
        if message.is_waiting() {
            guard.cache(sandbox);
            return Ok(message.into());
        }
        if message.state() != State::Undeliverable {
            guard.cache(sandbox);
            return Err(Error::conflict(
                ProblemCode::MessageNotUndeliverable,
                format!(
                    "Message {id} is {}; only an undeliverable message can be sent again.",
                    message.state()
                ),
                json!({"state": message.state()}),
            ));
        }
        if let Err(rejection) = admit(&sandbox, message.message_type) {
            guard.cache(sandbox);
            return Err(rejection);
        }
        let now = messages.clock.now();
        let position = Position { number: sandbox.seq + 1, queue_size: sandbox.activity.waiting + 1 };
        message.send_again(position, now);
        let mut batch = EventBatch::new(messages.ids);
        batch.changes.push(Change::SentAgain(message.clone()));
        let (version, by) = (Some(message.version), Some(Sender::of(&principal)));
        let event = MessageQueued { version, by, ..queued(&message) };
        batch.event(source(&principal, message.message_type), &event);
        let after = batch.sandbox_after(&sandbox);
        match batch.write(messages.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                enqueue(deps, &sandbox_id, &message).await;
                return Ok(message.into());
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}
