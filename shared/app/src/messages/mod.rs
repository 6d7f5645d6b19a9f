//! Messages to agents: send, pull, acknowledge, cancel, send again and list them.

pub mod acknowledge;
pub mod cancel;
pub mod history;
pub mod pull;
pub(crate) mod queue;
pub mod resend;
pub mod send;
pub mod sweep_mailboxes;

use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::{Clock, IdSource};
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
