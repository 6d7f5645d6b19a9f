//! Exclusive access to one sandbox: a keyed lock within this process, and optimistic concurrency with other
//! processes.

use crate::Clock;
use crate::error::Error;
use crate::sandboxes::keyed_locks::{KeyedLocks, SandboxCache};
use domain::{Sandbox, SandboxId};
use std::time::Duration;
use store::Store;
use tokio::sync::OwnedMutexGuard;

/// Maximum number of attempts before the request fails as unavailable. With one worker for each sandbox conflicts are
/// rare; this is for several senders in several processes.
const MAX_ATTEMPTS: u32 = 15;

/// Holds the lock of a sandbox until it is dropped.
pub(crate) struct WriteGuard<'a> {
    store: &'a Store,
    clock: &'a dyn Clock,
    cache: OwnedMutexGuard<SandboxCache>,
    /// The state that the last write of this guard returned.
    current: Option<Sandbox>,
    conflicts: u32,
}

impl<'a> WriteGuard<'a> {
    pub(crate) async fn acquire(
        store: &'a Store,
        locks: &KeyedLocks,
        clock: &'a dyn Clock,
        sandbox_id: &SandboxId,
    ) -> Self {
        let cache = locks.get(sandbox_id).lock_owned().await;
        Self { store, clock, cache, current: None, conflicts: 0 }
    }

    /// A state that is worth an attempt without a read. It may be stale, so no request may be rejected because of it.
    pub(crate) fn cached(&mut self) -> Option<Sandbox> {
        self.current.take().or_else(|| self.cache.take())
    }

    /// Reads the sandbox from the table.
    pub(crate) async fn read(&mut self, sandbox_id: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let sandbox = self.store.sandbox(sandbox_id).await?;
        if let Some(sandbox) = &sandbox {
            self.cache.compare(sandbox);
        }
        Ok(sandbox)
    }

    /// The state that the last write of this guard returned, or else that of the table. Never the cached one.
    pub(crate) async fn load(&mut self, sandbox_id: &SandboxId) -> Result<Sandbox, Error> {
        match self.current.take() {
            Some(sandbox) => Ok(sandbox),
            None => self.read(sandbox_id).await?.ok_or_else(|| Error::no_sandbox(sandbox_id)),
        }
    }

    /// Continues from the state after a write, when this guard is used for another one.
    pub(crate) fn advance(&mut self, sandbox: Sandbox) {
        self.current = Some(sandbox);
        self.conflicts = 0;
    }

    /// Caches the state for the next guard.
    pub(crate) fn cache(&mut self, sandbox: Sandbox) {
        self.cache.sandbox = Some(sandbox);
    }

    /// Another process committed first. The first retry is immediate if the current state is known; later ones are
    /// jittered, so that the writers do not collide again.
    pub(crate) async fn conflict(&mut self, current: Option<Box<Sandbox>>) -> Result<(), Error> {
        self.cache.shared = true;
        self.current = current.map(|sandbox| *sandbox);
        self.conflicts += 1;
        if self.conflicts >= MAX_ATTEMPTS {
            return Err(Error::Unavailable("too many concurrent writers of one sandbox".into()));
        }
        if self.conflicts > 1 || self.current.is_none() {
            let jitter_ms = self.clock.now().as_micros().unsigned_abs() % (10 * u64::from(self.conflicts));
            tokio::time::sleep(Duration::from_millis(jitter_ms)).await;
        }
        Ok(())
    }
}
