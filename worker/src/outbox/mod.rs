//! A durable queue on disk for everything that the worker sends to the plane.
//!
//! Emitting an event appends one line to a file and never waits for the network. Three queues are uploaded
//! concurrently, each by its own uploader: events in numbered batches (`docs/protocol.md`), receipts, and transcript
//! entries. Partial text has no queue: it is sent at once or dropped.
//!
//! **Invariant:** whatever crashes or fails, each emitted event is stored by the plane exactly once and in order, or
//! the log states what is missing and why (`worker.outbox_full`, `worker.event_refused`, `worker.spool_damaged`). A
//! lock on the directory ensures that only one worker uses it.
//!
//! Deliberately absent: fsync. Emitted events survive a crash of the process, but not of the machine.

mod disk_quota;
mod entries;
mod event_line;
mod events;
mod partials;
mod receipts;
mod response;
mod seen_ids;
mod shared;
mod spool;
mod spool_store;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod transcript_tests;

pub use domain::redact::{MIN_SECRET_BYTES, Secrets};
pub use response::BlockReason;
pub use seen_ids::REMEMBERED_IDS;
pub use shared::{LinkState, Timing};

use crate::agents::Partial;
use crate::clock;
use crate::event::Event;
use crate::tasks::TaskFailure;
use client::{ReceiptIn, SandboxApi};
use event_line::EventContext;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use shared::{Queue, Shared};
use spool_store::SpoolStore;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

#[derive(Debug)]
pub struct Settings {
    /// Directory of this outbox. Not shared with other workers.
    pub dir: PathBuf,
    /// Disk quota of all queues; see [`MAX_BYTES`]. Seen ids and rejected records take up to 10 MB more.
    pub max_bytes: u64,
    pub api: SandboxApi,
    /// Redacted from everything that is sent.
    pub secrets: Secrets,
    /// Default fields of every event, such as `task_id`.
    pub event_fields: Map<String, Value>,
    pub timing: Timing,
}

/// Default for [`Settings::max_bytes`].
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another worker uses the directory {}", .0.display())]
    InUse(PathBuf),
    #[error("cannot use the directory {}", .0.display())]
    Disk(PathBuf, #[source] io::Error),
}

/// Handle to the outbox. Clones share it.
#[derive(Debug, Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
    uploaders: Arc<Mutex<JoinSet<()>>>,
    _lock: Arc<File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Number of events emitted so far, across restarts.
    pub emitted: u64,
    pub waiting_events: u64,
    pub waiting_receipts: u64,
    /// Transcript entries.
    pub waiting_entries: u64,
    /// Size on disk.
    pub bytes: u64,
    /// Age of the oldest waiting event.
    pub oldest_age: Option<Duration>,
    /// Number of events dropped because the quota was exceeded.
    pub dropped: u64,
    /// Code of the current error.
    pub last_error: Option<&'static str>,
}

/// Number of attempts to take the lock, 100 ms apart.
const LOCK_ATTEMPTS: u32 = 20;

/// Locks the directory. Retries, because a child process that a dead worker was just forking may still hold the lock
/// for a moment.
#[expect(clippy::disallowed_methods, reason = "nothing else runs yet that could be blocked")]
fn acquire(lock: &File, dir: &Path) -> Result<(), OpenError> {
    for _ in 1..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(100)),
            Err(TryLockError::Error(error)) => return Err(OpenError::Disk(dir.to_owned(), error)),
        }
    }
    Err(OpenError::InUse(dir.to_owned()))
}

impl Outbox {
    /// Opens the directory and starts uploading what an earlier run left there. Requires a Tokio runtime.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let Settings { dir, max_bytes, api, secrets, event_fields, timing } = settings;
        let disk = |error| OpenError::Disk(dir.clone(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(disk)?;
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).map_err(disk)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("lock"));
        let lock = lock.map_err(disk)?;
        acquire(&lock, &dir)?;
        let context = Arc::new(EventContext { fields: event_fields, secrets });
        let mut store = SpoolStore::open(&dir, max_bytes, context.clone()).map_err(disk)?;
        store.report_overflow(false);
        let shared = Arc::new(Shared::new(store, api, context, timing));
        let mut uploaders = JoinSet::new();
        uploaders.spawn(events::run(shared.clone()));
        uploaders.spawn(receipts::run(shared.clone()));
        uploaders.spawn(entries::run(shared.clone()));
        uploaders.spawn(partials::run(shared.clone()));
        Ok(Self { shared, uploaders: Arc::new(Mutex::new(uploaders)), _lock: Arc::new(lock) })
    }

    /// Stores an event until the plane has it. Takes microseconds, whatever the network does.
    ///
    /// Idempotent: an event whose id was emitted before, even before a restart, is ignored. So events that are read
    /// again from the agent's transcript are emitted once. At least the last [`REMEMBERED_IDS`] ids are remembered.
    pub fn emit(&self, mut event: Event) {
        if self.has_emitted(&event.id) {
            return;
        }
        event_line::prepare(&mut event, &self.shared.context);
        let line = event_line::serialize(&mut event);
        self.shared.store().emit(event, &line);
        self.shared.notify(Queue::Events);
    }

    /// Whether an event with this id was emitted.
    pub fn has_emitted(&self, id: &str) -> bool {
        self.shared.store().has_emitted(id)
    }

    /// Whether old ids were evicted. Then an event with an unknown id may have been emitted long ago.
    pub fn has_evicted_ids(&self) -> bool {
        self.shared.store().has_evicted_ids()
    }

    /// Stores a receipt until the plane has it. Only a `delivered` waits, a moment, for its `started`.
    pub fn receipt(&self, receipt: ReceiptIn) {
        self.shared.store().receipt(receipt);
        self.shared.notify(Queue::Receipts);
    }

    /// Stores transcript entries until the plane has them, numbered from 1 across restarts. Stops when the quota is
    /// reached: continue with the entry [`Outbox::next_transcript_entry`].
    pub fn transcript(&self, session: &str, entries: Vec<Box<RawValue>>) {
        let secrets = &self.shared.context.secrets;
        let entries: Vec<_> = entries.into_iter().map(|entry| secrets.redact_raw(entry)).collect();
        self.shared.store().transcript(session, &entries);
        self.shared.notify(Queue::Entries);
    }

    /// Declares that the plane has all entries of a resumed session before `next`.
    pub fn resume_transcript_at(&self, session: &str, next: u64) {
        self.shared.store().resume_session_at(session, next);
    }

    /// Whether the quota has room for entries of this session and the plane still accepts them.
    pub fn accepts_transcript(&self, session: &str) -> bool {
        self.shared.store().accepts_entries(session)
    }

    /// Number of the next entry to store. It decreases if the plane has lost entries.
    pub fn next_transcript_entry(&self, session: &str) -> u64 {
        self.shared.store().next_entry(session)
    }

    /// Sends text that the model is still writing. Dropped if the plane is too slow.
    pub fn partial(&self, partial: Partial) {
        self.shared.partials.add(partial, &self.shared.context.secrets);
    }

    /// Waits until the plane has everything that was stored before this call. Returns `false` on timeout, or if another
    /// worker has taken over. Pending overflow reports are emitted first.
    pub async fn flushed(&self, timeout: Duration) -> bool {
        self.shared.flushed(timeout).await
    }

    pub fn link_state(&self) -> watch::Receiver<LinkState> {
        self.shared.link_state()
    }

    /// Notified when the plane accepted receipts and more messages are queued. The inbox then pulls again.
    pub fn more_messages(&self) -> Arc<Notify> {
        self.shared.more_messages.clone()
    }

    /// The next uploader that panics. Never resolves if none does. What it would have sent stays on disk.
    pub async fn failed(&self) -> TaskFailure {
        std::future::poll_fn(|context| {
            let mut uploaders = self.uploaders.lock().unwrap_or_else(PoisonError::into_inner);
            while let Poll::Ready(Some(ended)) = uploaders.poll_join_next(context) {
                let failure = ended.err().and_then(|why| TaskFailure::of("sending to the plane", &why));
                if let Some(failure) = failure {
                    return Poll::Ready(failure);
                }
            }
            Poll::Pending
        })
        .await
    }

    pub fn status(&self) -> Status {
        let mut store = self.shared.store();
        let now = clock::now().as_micros();
        let age = |at: domain::Timestamp| u64::try_from(now - at.as_micros()).unwrap_or(0);
        Status {
            emitted: store.events.next() - 1,
            waiting_events: store.events.waiting(),
            waiting_receipts: store.receipts.waiting(),
            waiting_entries: store.entries.waiting(),
            bytes: store.bytes(),
            oldest_age: store.oldest().map(age).map(Duration::from_micros),
            dropped: store.dropped(),
            last_error: self.shared.last_error(),
        }
    }

    /// Stops uploading. Unsent data stays on disk for the next run; see [`Outbox::flushed`]. The directory is unlocked
    /// when all clones are dropped.
    pub async fn close(self) {
        let mut uploaders =
            std::mem::take(&mut *self.uploaders.lock().unwrap_or_else(PoisonError::into_inner));
        uploaders.shutdown().await;
    }
}
