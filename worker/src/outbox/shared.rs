//! State shared by the outbox handle and its uploaders.

use super::event_line::EventContext;
use super::partials::Partials;
use super::response::BlockReason;
use super::spool_store::SpoolStore;
use client::{Backoff, SandboxApi};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The queues. They are uploaded independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Events,
    Receipts,
    Entries,
}

/// State of the connection to the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Events are sent, or retried soon.
    Sending,
    /// The plane accepts no events for now. They are kept and retried at a low rate.
    Blocked(BlockReason),
    /// Another worker has taken over. This one sends nothing any more and must exit.
    Fenced {
        /// Epoch of the other worker.
        current_epoch: u64,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a batch waits for more events.
    pub batch_delay: Duration,
    /// How long a `delivered` receipt waits for its `started`.
    pub receipt_delay: Duration,
    /// Delay after a failed request.
    pub retry: Backoff,
    /// Delay after the plane refused a request.
    pub blocked_delay: Duration,
    /// Interval between requests with partial text.
    pub partial_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            batch_delay: Duration::from_millis(100),
            receipt_delay: Duration::from_millis(200),
            retry: Backoff::default(),
            blocked_delay: Duration::from_secs(15),
            partial_interval: Duration::from_millis(250),
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    store: Mutex<SpoolStore>,
    pub api: SandboxApi,
    pub context: Arc<EventContext>,
    pub timing: Timing,
    pub partials: Partials,
    wake_ups: [Notify; 3],
    link_state: watch::Sender<LinkState>,
    progress: watch::Sender<()>,
    errors: Mutex<[Option<&'static str>; 3]>,
    /// Number of callers that wait for a flush.
    flushing: AtomicUsize,
    /// Notified when the plane accepted receipts and more messages are queued.
    pub more_messages: Arc<Notify>,
}

impl Shared {
    pub fn new(store: SpoolStore, api: SandboxApi, context: Arc<EventContext>, timing: Timing) -> Self {
        Self {
            store: Mutex::new(store),
            api,
            context,
            timing,
            partials: Partials::default(),
            wake_ups: [Notify::new(), Notify::new(), Notify::new()],
            link_state: watch::Sender::new(LinkState::Sending),
            progress: watch::Sender::new(()),
            errors: Mutex::new([None; 3]),
            flushing: AtomicUsize::new(0),
            more_messages: Arc::new(Notify::new()),
        }
    }

    /// Locks the store. Held for single writes to the page cache, never across an await.
    pub fn store(&self) -> MutexGuard<'_, SpoolStore> {
        // Files are written in whole lines, so a panic while the lock was held left nothing half-written.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes up the uploader of a queue.
    pub fn notify(&self, queue: Queue) {
        self.wake_ups[queue as usize].notify_one();
    }

    /// Waits for the next [`Shared::notify`].
    pub async fn notified(&self, queue: Queue) {
        self.wake_ups[queue as usize].notified().await;
    }

    /// Waits until the queue is not empty.
    pub async fn non_empty(&self, queue: Queue) {
        while self.waiting(queue) == 0 {
            self.notified(queue).await;
        }
    }

    fn waiting(&self, queue: Queue) -> u64 {
        let store = self.store();
        match queue {
            Queue::Events => store.events.waiting(),
            Queue::Receipts => store.receipts.waiting(),
            Queue::Entries => store.entries.waiting(),
        }
    }

    pub fn succeeded(&self, queue: Queue) {
        self.errors()[queue as usize] = None;
        self.progress.send_replace(());
    }

    pub fn failed(&self, queue: Queue, code: &'static str) {
        let before = self.errors()[queue as usize].replace(code);
        if before != Some(code) {
            tracing::info!("Cannot upload {queue:?} ({code}); retrying");
        }
    }

    /// Code of a current error, if any queue has one.
    pub fn last_error(&self) -> Option<&'static str> {
        self.errors().iter().flatten().next().copied()
    }

    fn errors(&self) -> MutexGuard<'_, [Option<&'static str>; 3]> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_link_state(&self, state: LinkState) {
        let changed = |current: &mut LinkState| std::mem::replace(current, state) != state;
        if self.link_state.send_if_modified(changed) {
            self.progress.send_replace(());
        }
    }

    pub fn link_state(&self) -> watch::Receiver<LinkState> {
        self.link_state.subscribe()
    }

    pub fn is_fenced(&self) -> bool {
        matches!(*self.link_state.borrow(), LinkState::Fenced { .. })
    }

    pub fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::Relaxed) > 0
    }

    /// Waits until the plane has everything that is queued now. Returns `false` on timeout or when fenced.
    pub async fn flushed(&self, timeout: Duration) -> bool {
        let until = tokio::time::Instant::now() + timeout;
        let mut progress = self.progress.subscribe();
        let (events, receipts, entries) = {
            let mut store = self.store();
            store.report_overflow(true);
            (store.events.next(), store.receipts.next(), store.entries.next())
        };
        let _flush = FlushGuard::new(&self.flushing);
        for queue in [Queue::Events, Queue::Receipts, Queue::Entries] {
            self.notify(queue);
        }
        loop {
            {
                let store = self.store();
                let (e, r, t) = (store.events.front(), store.receipts.front(), store.entries.front());
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

/// While it exists, uploaders do not wait to fill batches.
struct FlushGuard<'a>(&'a AtomicUsize);

impl<'a> FlushGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
