//! A turn at writing to one sandbox: nobody else of this process writes meanwhile, and if another process does, the
//! turn is tried again.

use crate::Clock;
use crate::error::Error;
use crate::sandboxes::keyed_locks::{KeyedLocks, Memory};
use domain::{Sandbox, SandboxId};
use std::time::Duration;
use store::Store;
use tokio::sync::OwnedMutexGuard;

/// How often a race for the head is run before the caller is asked to come back. With one worker per sandbox there is
/// hardly anybody to race; this is for several senders in several processes.
const MAX_LOSSES: u32 = 15;

/// A turn. The next one begins when it is dropped.
pub(crate) struct WriteGuard<'a> {
    store: &'a Store,
    clock: &'a dyn Clock,
    memory: OwnedMutexGuard<Memory>,
    returned: Option<Sandbox>,
    losses: u32,
}

impl<'a> WriteGuard<'a> {
    /// Waits for the turn.
    pub(crate) async fn begin(
        store: &'a Store,
        lanes: &KeyedLocks,
        clock: &'a dyn Clock,
        sandbox: &SandboxId,
    ) -> Self {
        let memory = lanes.lane(sandbox).lock_owned().await;
        Self { store, clock, memory, returned: None, losses: 0 }
    }

    /// What is worth trying without a look at the table. It may be out of date, so nobody may be refused for it.
    pub(crate) fn recall(&mut self) -> Option<Sandbox> {
        self.returned.take().or_else(|| self.memory.recall())
    }

    /// The head as the table has it.
    pub(crate) async fn read(&mut self, sandbox: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let head = self.store.sandbox(sandbox).await?;
        if let Some(head) = &head {
            self.memory.compare(head);
        }
        Ok(head)
    }

    /// The head as it was seen during this turn: as the table has it, or as it came with the news that somebody else
    /// was faster.
    pub(crate) async fn seen(&mut self, sandbox: &SandboxId) -> Result<Sandbox, Error> {
        match self.returned.take() {
            Some(head) => Ok(head),
            None => self.read(sandbox).await?.ok_or_else(|| Error::no_sandbox(sandbox)),
        }
    }

    /// The head after a write, when this turn goes on with another.
    pub(crate) fn won(&mut self, head: Sandbox) {
        self.returned = Some(head);
        self.losses = 0;
    }

    /// Leaves the head for the next turn.
    pub(crate) fn keep(&mut self, head: Sandbox) {
        self.memory.head = Some(head);
    }

    /// Somebody else was faster. The first to try again may win at once; later, jitter keeps racers from meeting again.
    pub(crate) async fn lost(&mut self, head: Option<Box<Sandbox>>) -> Result<(), Error> {
        self.memory.shared = true;
        self.returned = head.map(|head| *head);
        self.losses += 1;
        if self.losses >= MAX_LOSSES {
            return Err(Error::Unavailable("too many writers raced for the head of one sandbox".into()));
        }
        if self.losses > 1 || self.returned.is_none() {
            let jitter_ms = self.clock.now().as_micros().unsigned_abs() % (10 * u64::from(self.losses));
            tokio::time::sleep(Duration::from_millis(jitter_ms)).await;
        }
        Ok(())
    }
}
