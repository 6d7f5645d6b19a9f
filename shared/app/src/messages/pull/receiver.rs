//! The queue side of a pull: receives copies, and deletes or releases those that are not delivered.

use super::{Command, Confirmation, Mailbox};
use crate::error::chain;
use crate::messages::queue;
use contract::messages::QueuedMessage;
use domain::mailbox::{Waiting, due, next_visible_at};
use domain::{MessageId, SandboxId, Timestamp};
use std::time::Duration;
use store::mailboxes::{Incoming, Mailboxes, Queue, Receive, Reply};

pub(super) struct Receiver<'a> {
    mailboxes: &'a Mailboxes,
    sandbox: &'a SandboxId,
    limit: usize,
    hidden_secs: i64,
    queues: Queues,
    copies: Vec<Copy>,
    /// Whether a failure was already logged.
    warned: bool,
}

/// A message that a queue brought.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    pub(super) message: QueuedMessage,
    pub(super) queue: Queue,
    pub(super) handle: String,
}

impl Copy {
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
}

/// How long to wait for a message that the ledger has. Only a call that waits asks all servers of SQS.
const FETCH_WAIT: Duration = Duration::from_secs(1);
/// Receives of one fetch. More than one is needed only if the queue has copies of messages that left the mailbox.
const MAX_FETCHES: usize = 20;
/// Poll interval if the queues do not respond.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(1);

impl<'a> Receiver<'a> {
    pub(super) fn new(mailboxes: &'a Mailboxes, command: &'a Command) -> Self {
        Self {
            mailboxes,
            sandbox: &command.sandbox,
            limit: command.limit,
            hidden_secs: command.confirmation.hidden_secs(),
            queues: Queues::Expected,
            copies: Vec::new(),
            warned: false,
        }
    }

    pub(super) fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// Receives the copies of messages that are due.
    pub(super) async fn fetch(&mut self, mailbox: &Mailbox, due: &[Waiting]) {
        for queue in Queue::ALL {
            let of_queue: Vec<&Waiting> =
                due.iter().filter(|waiting| Queue::of(waiting.urgent) == queue).collect();
            // While this pull holds a copy, SQS returns no other message of the queue.
            if of_queue.is_empty() || self.holds_copy_of(queue) {
                continue;
            }
            // SQS moves a message that was received too often to the dead-letter queue, so it does not come.
            let wait = if of_queue.iter().all(|waiting| waiting.is_exhausted()) {
                Duration::ZERO
            } else {
                FETCH_WAIT
            };
            for _ in 0..MAX_FETCHES {
                let received = match self.receive(queue, wait).await {
                    Ok(Reply::Done(received)) if !received.is_empty() => received,
                    Ok(_) => break,
                    Err(error) => {
                        self.warn(&error);
                        break;
                    }
                };
                self.keep(received);
                self.delete_obsolete(mailbox).await;
                if self.holds_copy_of(queue) {
                    break;
                }
            }
        }
    }

    fn holds_copy_of(&self, queue: Queue) -> bool {
        self.copies.iter().any(|copy| copy.queue == queue)
    }

    /// Waits at both queues until one brings a message. Returns the time that it has waited in vain.
    pub(super) async fn wait(&mut self, timeout: Duration) -> Duration {
        let received = match self.queues {
            Queues::Missing => {
                self.queues = Queues::Created;
                self.mailboxes.create(self.sandbox).await.map(|()| Reply::Done(Vec::new()))
            }
            Queues::Starting => {
                self.queues = Queues::Expected;
                return pause(timeout).await;
            }
            Queues::Expected | Queues::Created => match self.receive_from_both(timeout).await {
                Ok(Reply::Done(none)) if none.is_empty() => return Mailboxes::in_whole_seconds(timeout),
                other => other,
            },
        };
        match received {
            Ok(Reply::Done(received)) => {
                self.keep(received);
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
                self.warn(&error);
                self.queues = Queues::Expected;
                pause(timeout).await
            }
        }
    }

    /// The slower call is dropped. If SQS has returned a message to it, the ledger delivers that message.
    async fn receive_from_both(&self, timeout: Duration) -> Result<Reply<Vec<Incoming>>, store::Error> {
        let mut urgent = Box::pin(self.receive(Queue::Urgent, timeout));
        let mut regular = Box::pin(self.receive(Queue::Regular, timeout));
        let is_empty = |reply: &Result<Reply<Vec<Incoming>>, _>| matches!(reply, Ok(Reply::Done(received)) if received.is_empty());
        tokio::select! {
            biased;
            reply = &mut urgent => if is_empty(&reply) { regular.await } else { reply },
            reply = &mut regular => if is_empty(&reply) { urgent.await } else { reply },
        }
    }

    async fn receive(&self, queue: Queue, wait: Duration) -> Result<Reply<Vec<Incoming>>, store::Error> {
        let receive = Receive { limit: self.limit, wait, hidden_secs: self.hidden_secs };
        self.mailboxes.receive(self.sandbox, queue, receive).await
    }

    fn keep(&mut self, received: Vec<Incoming>) {
        for Incoming { queue, body, handle } in received {
            match QueuedMessage::decode(&body) {
                Ok(message) => self.copies.push(Copy { message, queue, handle }),
                // Not ours. It is left to the dead-letter queue.
                Err(error) => {
                    let sandbox = self.sandbox;
                    tracing::warn!(sandbox.id = %sandbox, "Unreadable message on a queue of {sandbox}: {error}");
                }
            }
        }
    }

    /// Deletes the copies of messages that left the mailbox, and of superseded versions.
    async fn delete_obsolete(&mut self, mailbox: &Mailbox) {
        if !mailbox.is_complete {
            return;
        }
        let is_current = |copy: &Copy| mailbox.waiting.iter().any(|waiting| copy.is_of(waiting));
        let (current, obsolete): (Vec<Copy>, Vec<Copy>) =
            std::mem::take(&mut self.copies).into_iter().partition(is_current);
        self.copies = current;
        let handles = obsolete.into_iter().map(|copy| (copy.queue, copy.handle));
        queue::delete(self.mailboxes, self.sandbox, handles).await;
    }

    /// Deletes or releases the copies that are not needed after a delivery, or after none.
    pub(super) async fn finish(
        &mut self,
        mailbox: &Mailbox,
        delivered: &[MessageId],
        confirmation: Confirmation,
        now: Timestamp,
    ) {
        let (delivered, kept): (Vec<Copy>, Vec<Copy>) = std::mem::take(&mut self.copies)
            .into_iter()
            .partition(|copy| delivered.contains(&copy.message.id));
        if confirmation == Confirmation::Implicit && !delivered.is_empty() {
            let handles = delivered.into_iter().map(|copy| (copy.queue, copy.handle));
            queue::delete(self.mailboxes, self.sandbox, handles).await;
        }
        self.copies = kept;
        self.delete_obsolete(mailbox).await;
        let due = due(&mailbox.waiting, usize::MAX, now);
        let blocked_secs = next_visible_at(&mailbox.waiting, now)
            .map_or(0, |visible_at| (visible_at.as_micros() - now.as_micros()).div_euclid(1_000_000) + 1);
        for copy in std::mem::take(&mut self.copies) {
            let secs = if due.iter().any(|waiting| copy.is_of(waiting)) { 0 } else { blocked_secs };
            queue::hide(self.mailboxes, self.sandbox, (copy.queue, &copy.handle), secs).await;
        }
    }

    fn warn(&mut self, error: &store::Error) {
        if !self.warned {
            let (sandbox, reason) = (self.sandbox, chain(error));
            tracing::warn!(sandbox.id = %sandbox, "Delivering messages of {sandbox} from the ledger: {reason}");
        }
        self.warned = true;
    }
}

async fn pause(left: Duration) -> Duration {
    let pause = FALLBACK_POLL_INTERVAL.min(left);
    tokio::time::sleep(pause).await;
    pause
}
