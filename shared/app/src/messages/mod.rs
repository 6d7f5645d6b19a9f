//! Messages to agents: send, pull, acknowledge, cancel, send again and list them.

pub mod acknowledge;
pub mod cancel;
pub mod history;
pub mod pull;
pub(crate) mod queue;
pub mod resend;
pub mod send;
pub mod sweep_mailboxes;

use crate::error::Error;
use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::{Clock, IdSource};
use domain::access::Principal;
use domain::{Message, MessageId, SandboxId};
use store::{Mailboxes, Store};

/// Dependencies of the use cases that write messages.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub mailboxes: &'a Mailboxes,
    pub locks: &'a KeyedLocks,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
}

/// A message that a principal wants to change.
#[derive(Debug, Clone)]
pub struct OneMessage {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub message: MessageId,
}

/// A message of a sandbox that the caller may see.
async fn known_message(store: &Store, sandbox: &SandboxId, id: &MessageId) -> Result<Message, Error> {
    let known = store.messages(sandbox, std::slice::from_ref(id)).await?.pop();
    known.ok_or_else(|| Error::NotFound(format!("Message {id}")))
}
