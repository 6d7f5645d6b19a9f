//! The queue side of a pull: receives copies, and deletes or releases those that are not delivered.

use super::{Command, Confirmation, Deps, Mailbox};
use crate::error::{Error, chain};
use crate::messages::queue;
use contract::messages::QueuedMessage;
use domain::mailbox::{Waiting, due, next_visible_at};
use domain::{MessageId, SandboxId, Timestamp};
use futures_util::future::{join, join_all};
use std::time::Duration;
use store::mailboxes::{Incoming, Mailboxes, Queue, Receive, Reply};
use tokio::time::Instant;

pub(super) struct Receiver<'a> {
    deps: Deps<'a>,
    sandbox: &'a SandboxId,
    limit: usize,
    hidden_secs: i64,
    queues: Queues,
    copies: Vec<QueueCopy>,
    /// After it, this pull makes no more calls to SQS.
    deadline: Instant,
}

/// A message that a queue brought.
#[derive(Debug, Clone)]
pub(super) struct QueueCopy {
    pub(super) message: QueuedMessage,
    pub(super) queue: Queue,
    pub(super) handle: String,
}

impl QueueCopy {
    pub(super) fn is_of(&self, waiting: &Waiting) -> bool {
        self.message.id == waiting.id && self.message.version == waiting.version
    }
}

/// What this pull knows about the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queues {
    /// They should exist.
    Expected,
    /// They do not exist. They may be created after the ledger was read again.
    Missing,
    Created,
    /// They were created but do not respond yet. A new queue may take a second.
    Starting,
    /// A call failed. The rest of this pull uses the ledger, so that calls that time out do not add up.
    Unavailable,
}

/// How long to wait for a message that the ledger has. Only a call that waits asks all servers of SQS.
const FETCH_WAIT: Duration = Duration::from_secs(1);
/// Receives of one fetch. More than one is needed only if the queue has copies of messages that left the mailbox.
const MAX_FETCHES: usize = 20;
/// Poll interval if the queues do not respond.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time for SQS beyond the wait of the pull. Its function may run for 28 s, and a pull may wait for 20.
const MARGIN: Duration = Duration::from_secs(3);

impl<'a> Receiver<'a> {
    pub(super) fn new(deps: Deps<'a>, command: &'a Command) -> Self {
        Self {
            deps,
            sandbox: &command.sandbox,
            limit: command.limit,
            hidden_secs: command.confirmation.hidden_secs(),
            queues: Queues::Expected,
            copies: Vec::new(),
            deadline: Instant::now() + command.wait + MARGIN,
        }
    }

    pub(super) fn copies(&self) -> &[QueueCopy] {
        &self.copies
    }

    /// Receives the copies of messages that are due.
    pub(super) async fn fetch(&mut self, mailbox: &Mailbox, due: &[Waiting]) -> Result<(), Error> {
        let of_queue = |queue| due.iter().filter(move |waiting| Queue::of(waiting.urgent) == queue);
        let mut empty: Vec<Queue> = Vec::new();
        for _ in 0..MAX_FETCHES {
            // While this pull holds a copy, SQS returns no other message of the queue.
            let needed = |queue| {
                let count = of_queue(queue).count();
                (count > 0 && !empty.contains(&queue) && !self.holds_copy_of(queue)).then(|| {
                    // SQS moves a message that was received too often to the dead-letter queue, so it does not come.
                    let exhausted = of_queue(queue).all(Waiting::is_exhausted);
                    (count, if exhausted { Duration::ZERO } else { FETCH_WAIT })
                })
            };
            let (urgent, regular) = (needed(Queue::Urgent), needed(Queue::Regular));
            if !self.is_available() || urgent.is_none() && regular.is_none() {
                break;
            }
            let received =
                join(self.receive_some(Queue::Urgent, urgent), self.receive_some(Queue::Regular, regular));
            let (urgent, regular) = received.await;
            for (queue, received) in [(Queue::Urgent, urgent), (Queue::Regular, regular)] {
                match received {
                    Ok(Reply::Done(received)) if !received.is_empty() => self.keep(received).await,
                    Ok(_) => empty.push(queue),
                    Err(error) => self.give_up(&error),
                }
            }
            self.delete_obsolete(mailbox).await?;
        }
        Ok(())
    }

    fn holds_copy_of(&self, queue: Queue) -> bool {
        self.copies.iter().any(|copy| copy.queue == queue)
    }

    fn is_available(&self) -> bool {
        self.queues != Queues::Unavailable && Instant::now() < self.deadline
    }

    /// Waits at both queues until one brings a message. Returns the time that it has waited in vain.
    pub(super) async fn wait(&mut self, timeout: Duration) -> Duration {
        let received = match self.queues {
            Queues::Missing => {
                self.queues = Queues::Created;
                self.deps.mailboxes.create(self.sandbox).await.map(|()| Reply::Done(Vec::new()))
            }
            Queues::Starting => {
                self.queues = Queues::Expected;
                return pause(timeout).await;
            }
            Queues::Unavailable => return pause(timeout).await,
            Queues::Expected | Queues::Created => match self.receive_from_both(timeout).await {
                Ok(Reply::Done(none)) if none.is_empty() => return Mailboxes::in_whole_seconds(timeout),
                other => other,
            },
        };
        match received {
            Ok(Reply::Done(received)) => {
                self.keep(received).await;
                Duration::ZERO
            }
            // The sandbox may have ended. The next read finds out before the queues are created for it.
            Ok(Reply::NoQueue) => {
                self.queues = match self.queues {
                    Queues::Created => Queues::Starting,
                    _ => Queues::Missing,
                };
                Duration::ZERO
            }
            Err(error) => {
                self.give_up(&error);
                pause(timeout).await
            }
        }
    }

    /// The slower call is dropped. If SQS has returned a message to it, the ledger delivers that message.
    async fn receive_from_both(&self, timeout: Duration) -> Result<Reply<Vec<Incoming>>, store::Error> {
        let mut urgent = Box::pin(self.receive(Queue::Urgent, self.limit, timeout));
        let mut regular = Box::pin(self.receive(Queue::Regular, self.limit, timeout));
        let is_empty = |reply: &Result<Reply<Vec<Incoming>>, _>| matches!(reply, Ok(Reply::Done(received)) if received.is_empty());
        tokio::select! {
            biased;
            reply = &mut urgent => if is_empty(&reply) { regular.await } else { reply },
            reply = &mut regular => if is_empty(&reply) { urgent.await } else { reply },
        }
    }

    async fn receive_some(
        &self,
        queue: Queue,
        needed: Option<(usize, Duration)>,
    ) -> Result<Reply<Vec<Incoming>>, store::Error> {
        match needed {
            Some((count, wait)) => self.receive(queue, count, wait).await,
            None => Ok(Reply::Done(Vec::new())),
        }
    }

    async fn receive(
        &self,
        queue: Queue,
        limit: usize,
        wait: Duration,
    ) -> Result<Reply<Vec<Incoming>>, store::Error> {
        let receive = Receive { limit, wait, hidden_secs: self.hidden_secs };
        self.deps.mailboxes.receive(self.sandbox, queue, receive).await
    }

    async fn keep(&mut self, received: Vec<Incoming>) {
        for Incoming { queue, body, handle } in received {
            match QueuedMessage::decode(&body) {
                Ok(message) => self.copies.push(QueueCopy { message, queue, handle }),
                // Not ours. Released at once, it reaches the dead-letter queue soon and does not block the others.
                Err(error) => {
                    let sandbox = self.sandbox;
                    tracing::warn!(sandbox.id = %sandbox, "Unreadable message on a queue of {sandbox}: {error}");
                    queue::hide(self.deps.mailboxes, sandbox, (queue, &handle), 0).await;
                }
            }
        }
    }

    /// Deletes the copies of messages that left the mailbox, and of superseded versions. `mailbox` may be incomplete
    /// or older than a copy, so what it does not list is looked up.
    async fn delete_obsolete(&mut self, mailbox: &Mailbox) -> Result<(), Error> {
        let is_listed = |copy: &&QueueCopy| mailbox.waiting.iter().any(|waiting| copy.is_of(waiting));
        let mut unlisted: Vec<MessageId> =
            self.copies.iter().filter(|copy| !is_listed(copy)).map(|copy| copy.message.id.clone()).collect();
        unlisted.dedup();
        if unlisted.is_empty() {
            return Ok(());
        }
        let messages = self.deps.store.messages(self.sandbox, &unlisted).await?;
        let is_current = |copy: &QueueCopy| {
            let known = messages.iter().find(|message| message.id == copy.message.id);
            known.is_some_and(|known| known.is_waiting() && known.version == copy.message.version)
        };
        let (current, obsolete): (Vec<QueueCopy>, Vec<QueueCopy>) = std::mem::take(&mut self.copies)
            .into_iter()
            .partition(|copy| is_listed(&copy) || is_current(copy));
        self.copies = current;
        self.delete(obsolete).await;
        Ok(())
    }

    async fn delete(&self, copies: Vec<QueueCopy>) {
        let handles = copies.into_iter().map(|copy| (copy.queue, copy.handle));
        queue::delete(self.deps.mailboxes, self.sandbox, handles).await;
    }

    /// Deletes or releases the copies that are not needed after a delivery, or after none.
    pub(super) async fn dispose(
        &mut self,
        mailbox: &Mailbox,
        delivered: &[MessageId],
        confirmation: Confirmation,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut in_flight: Vec<MessageId> = Vec::new();
        let (delivered, rest): (Vec<QueueCopy>, Vec<QueueCopy>) = std::mem::take(&mut self.copies)
            .into_iter()
            .partition(|copy| delivered.contains(&copy.message.id));
        // One copy of a delivered message stays hidden until its receipt. A second one would only block the others.
        let (first, second): (Vec<QueueCopy>, Vec<QueueCopy>) = delivered.into_iter().partition(|copy| {
            let is_first = !in_flight.contains(&copy.message.id);
            in_flight.push(copy.message.id.clone());
            is_first
        });
        self.delete(second).await;
        if confirmation == Confirmation::Implicit {
            self.delete(first).await;
        }
        self.copies = rest;
        self.delete_obsolete(mailbox).await?;
        let due = due(&mailbox.waiting, usize::MAX, now);
        let blocked_secs = next_visible_at(&mailbox.waiting, now)
            .map_or(0, |visible_at| (visible_at.as_micros() - now.as_micros()).div_euclid(1_000_000) + 1);
        let copies = std::mem::take(&mut self.copies);
        join_all(copies.iter().map(|copy| {
            let secs = if due.iter().any(|waiting| copy.is_of(waiting)) { 0 } else { blocked_secs };
            queue::hide(self.deps.mailboxes, self.sandbox, (copy.queue, &copy.handle), secs)
        }))
        .await;
        Ok(())
    }

    /// Logs the failure once: the rest of the pull makes no calls to SQS.
    fn give_up(&mut self, error: &store::Error) {
        if self.queues != Queues::Unavailable {
            let (sandbox, reason) = (self.sandbox, chain(error));
            tracing::warn!(sandbox.id = %sandbox, "Delivering messages of {sandbox} from the ledger: {reason}");
        }
        self.queues = Queues::Unavailable;
    }
}

async fn pause(left: Duration) -> Duration {
    let pause = FALLBACK_POLL_INTERVAL.min(left);
    tokio::time::sleep(pause).await;
    pause
}
