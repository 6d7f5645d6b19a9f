//! Delivers messages to a worker, and waits for them if the mailbox is empty (long polling).

use crate::error::{Error, chain};
use crate::events::emit::{EventBatch, Written};
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, visibility};
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, URGENT_RESERVE, due, next_visible_at};
use domain::message::{Receipt, State};
use domain::{Message, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use std::time::Duration;
use store::ledger::Change;
use store::mailboxes::{Mailboxes, Waited};

pub use crate::messages::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    /// How long to wait for a message, in whole seconds.
    pub wait: Duration,
    pub limit: usize,
    pub confirmation: Confirmation,
}

/// How messages are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// By receipts. A fetched message is hidden from other pulls for this time, and is then delivered again.
    Receipts { hidden_secs: i64 },
    /// Fetching a message confirms it. For workers of OmoiOS, which send no receipts.
    Implicit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Urgent messages first, then in the order in which they were sent.
    pub messages: Vec<Message>,
    /// When the messages are delivered again unless they are confirmed.
    pub returns_at: Timestamp,
    /// Number of unconfirmed messages, including these.
    pub queue_size: u64,
}

/// Number of messages in the mailbox to read: first more than one pull delivers, because some may be hidden; then, if
/// all of them are hidden, as many as a mailbox can hold.
const SCAN_LIMITS: [usize; 2] = [50, (MAX_WAITING + URGENT_RESERVE) as usize];
/// Poll interval if the mailbox cannot be waited on.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum wait for a wake-up before the ledger is polled. It is the maximum delay of a message whose wake-up was
/// lost.
pub const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A retry does not get the messages of the first call until their visibility timeout has passed.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut left = command.wait;
    let mut waiter = Waiter { deps, sandbox: &command.sandbox, mailbox: Mailbox::Expected, warned: false };
    loop {
        let (visible_at, queue_size) = match poll(deps, &command).await? {
            Poll::Found(outcome) => return Ok(outcome),
            Poll::Empty { visible_at, queue_size } => (visible_at, queue_size),
        };
        let began = deps.clock.now();
        if left.is_zero() {
            return Ok(Outcome { messages: Vec::new(), returns_at: began, queue_size });
        }
        let timeout =
            visible_at.map_or(left, |visible_at| between(began, visible_at)).min(left).min(MAX_POLL_INTERVAL);
        let waited = waiter.wait(timeout).await;
        // Counts the wait itself too, because the clock may be set back, or stand still in tests.
        left = left.saturating_sub(waited.max(between(began, deps.clock.now())));
    }
}

/// Waits for wake-ups of a mailbox.
struct Waiter<'a> {
    deps: Deps<'a>,
    sandbox: &'a SandboxId,
    mailbox: Mailbox,
    /// Whether a failure was already logged.
    warned: bool,
}

/// What this pull knows about the mailbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mailbox {
    /// It should exist.
    Expected,
    /// It does not exist. It may be created after the next poll.
    Missing,
    Created,
    /// It was created but does not respond yet. A new queue may take a second.
    Starting,
}

impl Waiter<'_> {
    /// Returns when it is time to poll, with the time that it has waited in vain.
    async fn wait(&mut self, timeout: Duration) -> Duration {
        let mailboxes = self.deps.mailboxes;
        let result = match self.mailbox {
            Mailbox::Missing => mailboxes.create(self.sandbox).await.map(|()| {
                self.mailbox = Mailbox::Created;
                Waited::Notified
            }),
            Mailbox::Starting => {
                self.mailbox = Mailbox::Expected;
                return pause(timeout).await;
            }
            Mailbox::Expected | Mailbox::Created => mailboxes.wait(self.sandbox, timeout).await,
        };
        match result {
            Ok(Waited::Notified) => Duration::ZERO,
            Ok(Waited::TimedOut) => Mailboxes::in_whole_seconds(timeout),
            // The sandbox may have ended. The next poll finds out before a mailbox is created for it.
            Ok(Waited::NoMailbox) => {
                self.mailbox = match self.mailbox {
                    Mailbox::Created => Mailbox::Starting,
                    _ => Mailbox::Missing,
                };
                Duration::ZERO
            }
            Err(error) => {
                if !self.warned {
                    let (sandbox, reason) = (self.sandbox, chain(&error));
                    tracing::warn!(sandbox.id = %sandbox, "Polling for messages of {sandbox} without wake-ups: {reason}");
                }
                (self.mailbox, self.warned) = (Mailbox::Expected, true);
                pause(timeout).await
            }
        }
    }
}

enum Poll {
    Found(Outcome),
    /// Holds when the first hidden message becomes visible again.
    Empty {
        visible_at: Option<Timestamp>,
        queue_size: u64,
    },
}

async fn poll(deps: Deps<'_>, command: &Command) -> Result<Poll, Error> {
    let sandbox_id = &command.sandbox;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, sandbox_id).await;
    loop {
        let sandbox = guard.load(sandbox_id).await?;
        visibility::check(&command.principal, &sandbox)?;
        visibility::check_not_ended(&sandbox)?;
        if sandbox.activity.waiting == 0 {
            guard.cache(sandbox);
            return Ok(Poll::Empty { visible_at: None, queue_size: 0 });
        }
        let now = deps.clock.now();
        let (ids, visible_at) = deliverable(deps, command, now).await?;
        if ids.is_empty() {
            let queue_size = sandbox.activity.waiting;
            guard.cache(sandbox);
            return Ok(Poll::Empty { visible_at, queue_size });
        }
        let messages = deps.store.messages(sandbox_id, &ids).await?;
        let delivery = Delivery::new(deps.ids, messages, command.confirmation, now);
        let after = delivery.batch.sandbox_after(&sandbox);
        match delivery.batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                let (messages, returns_at) = (delivery.messages, delivery.returns_at);
                let queue_size = after.activity.waiting;
                return Ok(Poll::Found(Outcome { messages, returns_at, queue_size }));
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// The messages that may be delivered now. If there are none, when the first hidden one becomes visible again.
async fn deliverable(
    deps: Deps<'_>,
    command: &Command,
    now: Timestamp,
) -> Result<(Vec<MessageId>, Option<Timestamp>), Error> {
    let mut visible_at = None;
    for limit in SCAN_LIMITS {
        let waiting = deps.store.waiting_messages(&command.sandbox, limit).await?;
        let next = due(&waiting, command.limit, now);
        visible_at = next_visible_at(&waiting, now);
        if !next.is_empty() || waiting.len() < limit {
            return Ok((next.into_iter().map(|message| message.id.clone()).collect(), visible_at));
        }
    }
    Ok((Vec::new(), visible_at))
}

/// Messages to deliver, with their events.
struct Delivery<'a> {
    messages: Vec<Message>,
    returns_at: Timestamp,
    batch: EventBatch<'a>,
}

impl<'a> Delivery<'a> {
    fn new(
        ids: &'a dyn IdSource,
        mut messages: Vec<Message>,
        confirmation: Confirmation,
        now: Timestamp,
    ) -> Self {
        let returns_at = match confirmation {
            Confirmation::Receipts { hidden_secs } => now.plus_secs(hidden_secs),
            Confirmation::Implicit => now,
        };
        let mut batch = EventBatch::new(ids);
        for message in &mut messages {
            message.record_delivery(now);
            let data = json!({"message_id": message.id, "delivery": message.deliveries});
            batch.message(State::Fetched, Source::System, &data);
            let change = match confirmation {
                Confirmation::Receipts { .. } => Change::Fetched(message.clone(), returns_at),
                Confirmation::Implicit => {
                    message.advance(Receipt { state: State::Delivered, at: now, detail: None });
                    // No receipt will follow.
                    let data = json!({"message_id": message.id, "last": true});
                    batch.message(State::Delivered, Source::System, &data);
                    Change::Resolved(message.clone())
                }
            };
            batch.changes.push(change);
        }
        Self { messages, returns_at, batch }
    }
}

async fn pause(left: Duration) -> Duration {
    let pause = FALLBACK_POLL_INTERVAL.min(left);
    tokio::time::sleep(pause).await;
    pause
}

fn between(began: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(now.as_micros() - began.as_micros()).unwrap_or(0))
}
