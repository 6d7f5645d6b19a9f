//! What the worker has to say, on disk, until the plane has it.
//!
//! Whoever tells something writes one line into a file and goes on: the network is never waited for. Three lanes are
//! carried to the plane side by side, each by its own courier: events in batches numbered as `docs/protocol.md` says,
//! receipts, and transcripts. Live text has no lane: it is shown or forgotten.
//!
//! **Invariant:** whatever dies and whatever breaks, each event that was told is stored once, in the order in which it
//! was told, or the log says what is missing and why (`worker.outbox_full`, `worker.event_refused`,
//! `worker.spool_damaged`). The folder has a lock, so that there is one worker.
//!
//! Deliberately absent: waiting for the disk. What was told survives the process, however it ends, but not the machine.

mod courier;
mod entries;
mod fit;
mod judge;
mod known;
mod partials;
mod receipts;
mod room;
mod shared;
mod spool;
mod store;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod transcript_tests;

pub use domain::redact::{SHORTEST_SECRET, Secrets};
pub use judge::Trouble;
pub use known::REMEMBERED_IDS;
pub use shared::{Fate, Pace};

use crate::agents::Partial;
use crate::clock;
use crate::event::Event;
use client::{Once, ReceiptIn};
use room::Voice;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use shared::{Lane, Shared};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Store;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Where the outbox is and where it leads.
#[derive(Debug)]
pub struct Settings {
    /// Its folder, of which no other worker makes use.
    pub dir: PathBuf,
    /// Most bytes of all lanes on disk: [`MAX_BYTES`], unless somebody has less. The ids of what was told and what was
    /// set aside take up to 10 MB more.
    pub max_bytes: u64,
    /// The way to the plane.
    pub once: Once,
    /// What is never told.
    pub secrets: Secrets,
    /// Fields of every event, where it has none of that name: `task_id`, `agent_id`.
    pub context: Map<String, Value>,
    /// How patient it is.
    pub pace: Pace,
}

/// A good size for [`Settings::max_bytes`].
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Why there is no outbox.
#[derive(Debug, thiserror::Error)]
pub enum CannotOpen {
    /// Another worker has it.
    #[error("another worker uses the folder {}", .0.display())]
    InUse(PathBuf),
    /// The disk does not play along.
    #[error("cannot use the folder {}", .0.display())]
    Disk(PathBuf, #[source] io::Error),
}

/// The way up. Clones are the same outbox.
#[derive(Debug, Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
    couriers: Arc<Mutex<JoinSet<()>>>,
    _lock: Arc<File>,
}

/// How much waits, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// How many events were told so far, in all lives.
    pub told: u64,
    /// How many of them wait.
    pub waiting_events: u64,
    /// How many receipts wait.
    pub waiting_receipts: u64,
    /// How many entries of transcripts wait.
    pub waiting_entries: u64,
    /// What is on disk.
    pub bytes: u64,
    /// For how long the oldest event waits.
    pub oldest_age: Option<Duration>,
    /// How many events are lost since there is no room.
    pub dropped: u64,
    /// What goes wrong, in a word.
    pub last_error: Option<&'static str>,
}

/// How often the lock is tried, a tenth of a second apart.
const TRIES: u32 = 20;

/// Takes the lock of the folder. A process that another worker was just about to start holds its files for a moment, also
/// when that worker is gone.
#[expect(clippy::disallowed_methods, reason = "nothing runs yet that could be held up")]
fn take(lock: &File, dir: &Path) -> Result<(), CannotOpen> {
    for _ in 1..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(100)),
            Err(TryLockError::Error(error)) => return Err(CannotOpen::Disk(dir.to_owned(), error)),
        }
    }
    Err(CannotOpen::InUse(dir.to_owned()))
}

impl Outbox {
    /// Opens the folder, and begins to send what an earlier life left there. Needs a runtime.
    pub fn open(settings: Settings) -> Result<Self, CannotOpen> {
        let Settings { dir, max_bytes, once, secrets, context, pace } = settings;
        let disk = |error| CannotOpen::Disk(dir.clone(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(disk)?;
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).map_err(disk)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("lock"));
        let lock = lock.map_err(disk)?;
        take(&lock, &dir)?;
        let voice = Arc::new(Voice { context, secrets });
        let mut store = Store::open(&dir, max_bytes, voice.clone()).map_err(disk)?;
        store.account(false);
        let shared = Arc::new(Shared::new(store, once, voice, pace));
        let mut couriers = JoinSet::new();
        couriers.spawn(courier::run(shared.clone()));
        couriers.spawn(receipts::run(shared.clone()));
        couriers.spawn(entries::run(shared.clone()));
        couriers.spawn(partials::run(shared.clone()));
        Ok(Self { shared, couriers: Arc::new(Mutex::new(couriers)), _lock: Arc::new(lock) })
    }

    /// Keeps an event until the plane has it. Takes microseconds, whatever the network does. One whose id was told
    /// before, also in an earlier life, is ignored: so what is read again from an agent's own record is told once.
    /// ([`REMEMBERED_IDS`] ids are known at least.)
    pub fn tell(&self, mut event: Event) {
        if self.knows(&event.id) {
            return;
        }
        fit::prepare(&mut event, &self.shared.voice.context, &self.shared.voice.secrets);
        let line = fit::line(&mut event);
        self.shared.store().tell(event, &line);
        self.shared.ring(Lane::Events);
    }

    /// Whether an event of this name was told.
    pub fn knows(&self, id: &str) -> bool {
        self.shared.store().knows(id)
    }

    /// Whether more events were told than are remembered: then one that is not known may have been told long ago.
    pub fn has_forgotten(&self) -> bool {
        self.shared.store().has_forgotten()
    }

    /// Keeps a receipt until the plane has it. It is sent at once.
    pub fn receipt(&self, receipt: ReceiptIn) {
        self.shared.store().receipt(receipt);
        self.shared.ring(Lane::Receipts);
    }

    /// Keeps entries of a session's transcript until the plane has them. They are numbered from 1 on, through all lives.
    /// As many are taken as there is room for: go on with the one that [`Outbox::transcript_next`] names.
    pub fn transcript(&self, session: &str, entries: Vec<Box<RawValue>>) {
        let secrets = &self.shared.voice.secrets;
        let entries: Vec<_> = entries.into_iter().map(|entry| secrets.redact_raw(entry)).collect();
        self.shared.store().transcript(session, &entries);
        self.shared.ring(Lane::Entries);
    }

    /// The plane has all entries of this session before `next`: a session that is resumed goes on from there.
    pub fn transcript_begins(&self, session: &str, next: u64) {
        self.shared.store().session_begins(session, next);
    }

    /// Whether there is room for entries of this session, and the plane wants them.
    pub fn transcript_wanted(&self, session: &str) -> bool {
        self.shared.store().takes_entries(session)
    }

    /// The number of the entry of this session that is wanted next. It may go back, if the plane says so.
    pub fn transcript_next(&self, session: &str) -> u64 {
        self.shared.store().next_entry(session)
    }

    /// Shows text that is being written, if the plane keeps up.
    pub fn partial(&self, partial: Partial) {
        self.shared.partials.add(partial, &self.shared.voice.secrets);
    }

    /// Waits until everything that was told before is with the plane; `false` if that takes longer, or if somebody else
    /// is the worker now. What was left out for want of room is told first.
    pub async fn flushed(&self, deadline: Duration) -> bool {
        self.shared.flushed(deadline).await
    }

    /// How it stands with the plane.
    pub fn fate(&self) -> watch::Receiver<Fate> {
        self.shared.fate()
    }

    /// Rings when receipts were taken and messages still wait: then the inbox looks again.
    pub fn more_messages(&self) -> Arc<Notify> {
        self.shared.more_messages.clone()
    }

    /// How much waits, and why.
    pub fn status(&self) -> Status {
        let mut store = self.shared.store();
        let now = clock::now().as_micros();
        let age = |at: domain::Timestamp| u64::try_from(now - at.as_micros()).unwrap_or(0);
        Status {
            told: store.events.next() - 1,
            waiting_events: store.events.waiting(),
            waiting_receipts: store.receipts.waiting(),
            waiting_entries: store.entries.waiting(),
            bytes: store.bytes(),
            oldest_age: store.oldest().map(age).map(Duration::from_micros),
            dropped: store.dropped(),
            last_error: self.shared.last_error(),
        }
    }

    /// Stops sending. What is not with the plane yet stays on disk for the next life; see [`Outbox::flushed`]. The
    /// folder is free once all clones are gone.
    pub async fn close(self) {
        let mut couriers = std::mem::take(&mut *self.couriers.lock().unwrap_or_else(PoisonError::into_inner));
        couriers.shutdown().await;
    }
}
