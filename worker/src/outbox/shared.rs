//! What the outbox's handle and its couriers have in common.

use super::judge::Trouble;
use super::partials::Partials;
use super::room::Voice;
use super::store::Store;
use client::{Backoff, Once};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The ways up. None waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Events,
    Receipts,
    Entries,
}

/// How the outbox stands with the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Events go up, or are tried again soon.
    Sending,
    /// The plane takes none for now. Everything is kept, and tried again now and then.
    Held(Trouble),
    /// Somebody else is the worker now. Nothing is sent any more, for good: end.
    Fenced {
        /// The epoch of the other one.
        current_epoch: u64,
    },
}

/// How patient the outbox is.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// For how long a batch waits for more events.
    pub gather: Duration,
    /// Between tries.
    pub retry: Backoff,
    /// Between tries when the plane says that it does not want any.
    pub slow: Duration,
    /// For how long one request may take.
    pub deadline: Duration,
    /// Between two looks at live text.
    pub live: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(100),
            retry: Backoff::default(),
            slow: Duration::from_secs(15),
            deadline: Duration::from_secs(15),
            live: Duration::from_millis(250),
        }
    }
}

/// Everything in one place.
#[derive(Debug)]
pub(super) struct Shared {
    store: Mutex<Store>,
    /// The way to the plane.
    pub once: Once,
    /// What goes with every event.
    pub voice: Arc<Voice>,
    /// How patient.
    pub pace: Pace,
    /// Text that is being written.
    pub partials: Partials,
    rings: [Notify; 3],
    fate: watch::Sender<Fate>,
    progress: watch::Sender<()>,
    errors: Mutex<[Option<&'static str>; 3]>,
    hurried: AtomicUsize,
    /// Rings when receipts were taken and messages still wait.
    pub more_messages: Arc<Notify>,
}

impl Shared {
    pub fn new(store: Store, once: Once, voice: Arc<Voice>, pace: Pace) -> Self {
        Self {
            store: Mutex::new(store),
            once,
            voice,
            pace,
            partials: Partials::default(),
            rings: [Notify::new(), Notify::new(), Notify::new()],
            fate: watch::Sender::new(Fate::Sending),
            progress: watch::Sender::new(()),
            errors: Mutex::new([None; 3]),
            hurried: AtomicUsize::new(0),
            more_messages: Arc::new(Notify::new()),
        }
    }

    /// What is on disk. Held for single writes to the page cache, never across a wait.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        // Files are written in whole lines, so a panic elsewhere leaves nothing half done.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was written to a lane.
    pub fn ring(&self, lane: Lane) {
        self.rings[lane as usize].notify_one();
    }

    /// Waits until something is written to a lane.
    pub async fn rung(&self, lane: Lane) {
        self.rings[lane as usize].notified().await;
    }

    /// Waits until something waits in a lane.
    pub async fn waits(&self, lane: Lane) {
        while self.waiting(lane) == 0 {
            self.rung(lane).await;
        }
    }

    fn waiting(&self, lane: Lane) -> u64 {
        let store = self.store();
        match lane {
            Lane::Events => store.events.waiting(),
            Lane::Receipts => store.receipts.waiting(),
            Lane::Entries => store.entries.waiting(),
        }
    }

    /// A lane got through.
    pub fn succeeded(&self, lane: Lane) {
        self.errors()[lane as usize] = None;
        self.progress.send_replace(());
    }

    /// A lane did not.
    pub fn failed(&self, lane: Lane, kind: &'static str) {
        let before = self.errors()[lane as usize].replace(kind);
        if before != Some(kind) {
            tracing::info!("The plane does not take {lane:?} ({kind}); trying again");
        }
    }

    /// The last thing that went wrong and is not over.
    pub fn last_error(&self) -> Option<&'static str> {
        self.errors().iter().flatten().next().copied()
    }

    fn errors(&self) -> MutexGuard<'_, [Option<&'static str>; 3]> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It stands otherwise with the plane now.
    pub fn meets(&self, fate: Fate) {
        let changed = |current: &mut Fate| std::mem::replace(current, fate) != fate;
        if self.fate.send_if_modified(changed) {
            self.progress.send_replace(());
        }
    }

    pub fn fate(&self) -> watch::Receiver<Fate> {
        self.fate.subscribe()
    }

    pub fn is_fenced(&self) -> bool {
        matches!(*self.fate.borrow(), Fate::Fenced { .. })
    }

    pub fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }

    /// Whether all that waits now is with the plane before the deadline.
    pub async fn flushed(&self, deadline: Duration) -> bool {
        let until = tokio::time::Instant::now() + deadline;
        let mut progress = self.progress.subscribe();
        let (events, receipts, entries) = {
            let mut store = self.store();
            store.account(true);
            (store.events.next(), store.receipts.next(), store.entries.next())
        };
        let _hurry = Hurry::of(&self.hurried);
        for lane in [Lane::Events, Lane::Receipts, Lane::Entries] {
            self.ring(lane);
        }
        loop {
            {
                let store = self.store();
                let (e, r, t) = (store.events.head(), store.receipts.head(), store.entries.head());
                if e >= events && r >= receipts && t >= entries {
                    return true;
                }
            }
            if self.is_fenced() {
                return false;
            }
            match tokio::time::timeout_at(until, progress.changed()).await {
                Ok(Ok(())) => {}
                _ => return false,
            }
        }
    }
}

/// As long as it lives, nothing waits for company.
struct Hurry<'a>(&'a AtomicUsize);

impl<'a> Hurry<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
