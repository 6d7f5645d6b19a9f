//! What the use cases around messages have in common.

pub mod acknowledge;
pub mod cancel;
pub mod history;
pub mod pull;
pub mod send;

use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::{Clock, IdSource};
use store::{Mailboxes, Store};

/// What they touch.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the ledger; writes them and the log.
    pub store: &'a Store,
    /// Where workers wait: rung, waited at, made or removed, as each needs.
    pub mailboxes: &'a Mailboxes,
    /// The process's lanes.
    pub lanes: &'a KeyedLocks,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Source of new ids.
    pub ids: &'a dyn IdSource,
}
