//! Delivers messages to a worker, and waits for them if the mailbox is empty (long polling).
//!
//! The queues bring the messages. The ledger decides which of them may be delivered, records the delivery, and
//! delivers what the queues do not bring.

mod delivery;
mod receiver;

use crate::error::{Error, chain};
use crate::sandboxes::write_guard::WriteGuard;
use crate::visibility;
use contract::messages::{DEFAULT_HIDDEN_SECS, QueuedMessage};
use delivery::Delivery;
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, URGENT_RESERVE, Waiting, due, next_visible_at};
use domain::{MessageId, Sandbox, SandboxId, Timestamp};
use receiver::Receiver;
use std::time::Duration;

pub use crate::messages::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    /// How long to wait for a message, in whole seconds.
    pub wait: Duration,
    pub limit: usize,
    pub confirmation: Confirmation,
    /// Messages that the worker has pulled and still holds: they are not delivered again for another visibility
    /// timeout.
    pub holding: Vec<MessageId>,
}

/// How messages are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// By receipts. A fetched message is hidden from other pulls for this time, and is then delivered again.
    Receipts { hidden_secs: i64 },
    /// Fetching a message confirms it. For workers of OmoiOS, which send no receipts.
    Implicit,
}

impl Confirmation {
    fn hidden_secs(self) -> i64 {
        match self {
            Self::Receipts { hidden_secs } => hidden_secs,
            Self::Implicit => DEFAULT_HIDDEN_SECS.cast_signed(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Urgent messages first, then in the order in which they were sent.
    pub messages: Vec<Delivered>,
    /// When the messages are delivered again unless they are confirmed.
    pub returns_at: Timestamp,
    /// Number of unconfirmed messages, including these.
    pub queue_size: u64,
    /// How many of these messages the queues did not bring.
    pub from_ledger: usize,
    /// How many other messages were pulled too often and are undeliverable now.
    pub undeliverable: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub message: QueuedMessage,
    /// How often it was pulled, including this time.
    pub delivery: u32,
}

/// Number of messages in the mailbox to read: first more than one pull delivers, because some may be hidden; then, if
/// all of them are hidden, as many as a mailbox can hold.
const SCAN_LIMITS: [usize; 2] = [50, (MAX_WAITING + URGENT_RESERVE) as usize];
/// Maximum wait at the queues before the ledger is read again. It is the maximum delay of a message that the queues
/// have lost.
pub const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A retry does not get the messages of the first call until their visibility timeout has passed.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let (mut left, mut undeliverable) = (command.wait, 0);
    let mut receiver = Receiver::new(deps, &command);
    loop {
        let began = deps.clock.now();
        let mut mailbox = Mailbox::read(deps, &command).await?;
        // Futures of the SDK are large. On the heap they do not add up on the stack.
        if !command.holding.is_empty() {
            mailbox = Box::pin(delivery::extend(deps, &command, mailbox)).await?;
        }
        Box::pin(receiver.fetch(&mailbox, &mailbox.due(command.limit, began))).await?;
        let delivery =
            Box::pin(delivery::deliver(deps, &command, mailbox.clone(), receiver.copies())).await?;
        let now = deps.clock.now();
        if let Some(Delivery { outcome, delivered, mailbox }) = delivery {
            // The delivery is recorded. Copies that stay are recognized by a later pull.
            if let Err(error) =
                Box::pin(receiver.dispose(&mailbox, &delivered, command.confirmation, now)).await
            {
                tracing::warn!(sandbox.id = %command.sandbox, "Could not check copies on the queues: {}", chain(&error));
            }
            if !outcome.messages.is_empty() {
                return Ok(Outcome { undeliverable: undeliverable + outcome.undeliverable, ..outcome });
            }
            // It only gave up messages that were pulled too often. Others may be due behind them.
            undeliverable += outcome.undeliverable;
            continue;
        }
        Box::pin(receiver.dispose(&mailbox, &[], command.confirmation, now)).await?;
        if left.is_zero() {
            let queue_size = mailbox.sandbox.activity.waiting;
            return Ok(Outcome {
                messages: Vec::new(),
                returns_at: now,
                queue_size,
                from_ledger: 0,
                undeliverable,
            });
        }
        let visible_at = next_visible_at(&mailbox.waiting, now);
        let timeout =
            visible_at.map_or(left, |visible_at| between(now, visible_at)).min(left).min(MAX_POLL_INTERVAL);
        let waited = Box::pin(receiver.wait(timeout)).await;
        // Counts the wait itself too, because the clock may be set back, or stand still in tests.
        left = left.saturating_sub(waited.max(between(began, deps.clock.now())));
    }
}

/// The mailbox as the ledger has it.
#[derive(Debug, Clone)]
struct Mailbox {
    sandbox: Sandbox,
    /// The first entries, in the order of delivery.
    waiting: Vec<Waiting>,
}

impl Mailbox {
    async fn read(deps: Deps<'_>, command: &Command) -> Result<Self, Error> {
        let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &command.sandbox).await;
        let sandbox = guard.load(&command.sandbox).await?;
        check(command, &sandbox, deps.clock.now())?;
        guard.cache(sandbox.clone());
        drop(guard);
        Self::of(deps, command, sandbox).await
    }

    /// Reads the entries of a sandbox that was just read.
    async fn of(deps: Deps<'_>, command: &Command, sandbox: Sandbox) -> Result<Self, Error> {
        let mut mailbox = Self { sandbox, waiting: Vec::new() };
        if mailbox.sandbox.activity.waiting == 0 {
            return Ok(mailbox);
        }
        for limit in SCAN_LIMITS {
            mailbox.waiting = deps.store.waiting_messages(&command.sandbox, limit).await?;
            let is_complete = mailbox.waiting.len() < limit;
            if is_complete || !mailbox.due(1, deps.clock.now()).is_empty() {
                break;
            }
        }
        Ok(mailbox)
    }

    fn due(&self, limit: usize, now: Timestamp) -> Vec<Waiting> {
        due(&self.waiting, limit, now).into_iter().cloned().collect()
    }
}

/// A worker that pulls after the end of its sandbox gets that as the reason, until its token is of no use any more.
fn check(command: &Command, sandbox: &Sandbox, now: Timestamp) -> Result<(), Error> {
    visibility::check_report(&command.principal, sandbox, now)?;
    visibility::check_not_ended(sandbox)
}

fn between(began: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(now.as_micros() - began.as_micros()).unwrap_or(0))
}
