//! Copies of messages on the SQS queues of a mailbox. The ledger decides what is still to be delivered, so a copy that
//! is lost, late or left over costs time but no message.

use crate::error::chain;
use contract::messages::QueuedMessage;
use domain::{Message, SandboxId};
use futures_util::future::join_all;
use store::mailboxes::{Mailboxes, Outgoing, Queue, Reply};

pub(crate) fn queue_of(message: &Message) -> Queue {
    Queue::of(message.message_type.is_urgent())
}

/// Puts a message onto its queue. Idempotent for five minutes; after that a second copy is recognized by the pull
/// that receives it.
pub(crate) async fn enqueue(
    mailboxes: &Mailboxes,
    sandbox: &SandboxId,
    message: &Message,
) -> Result<(), store::Error> {
    let copy = QueuedMessage::from(message);
    let outgoing = Outgoing { deduplication_id: copy.deduplication_id(), body: copy.encode() };
    if let Reply::Done(()) = mailboxes.send(sandbox, queue_of(message), &outgoing).await? {
        return Ok(());
    }
    // The sandbox was created by the first event of its worker, or its queue was deleted.
    mailboxes.create(sandbox).await?;
    match mailboxes.send(sandbox, queue_of(message), &outgoing).await? {
        Reply::Done(()) => Ok(()),
        Reply::NoQueue => Err(store::Error::unavailable("the mailbox", "its queue is still being created")),
    }
}

/// Creates the queues of a new sandbox. A failure is only logged: the first message creates them.
pub(crate) async fn create(mailboxes: &Mailboxes, sandbox: &SandboxId) {
    if let Err(error) = mailboxes.create(sandbox).await {
        tracing::warn!(sandbox.id = %sandbox, "Could not create the mailbox of {sandbox}: {}", chain(&error));
    }
}

/// Deletes the copies of messages that left the mailbox. A copy that stays is deleted by the pull that receives it.
pub(crate) async fn delete_copies<'a>(
    mailboxes: &Mailboxes,
    sandbox: &SandboxId,
    messages: impl IntoIterator<Item = &'a Message>,
) {
    let copies = messages.into_iter().filter_map(|message| {
        let handle = message.queue_handle.clone()?;
        Some((queue_of(message), handle))
    });
    delete(mailboxes, sandbox, copies).await;
}

/// Deletes copies by their handles. One that was received again since stays, and is deleted by a later pull.
pub(crate) async fn delete(
    mailboxes: &Mailboxes,
    sandbox: &SandboxId,
    copies: impl IntoIterator<Item = (Queue, String)>,
) {
    join_all(copies.into_iter().map(async |(queue, handle)| {
        if let Err(error) = mailboxes.delete(sandbox, queue, &handle).await {
            tracing::warn!(sandbox.id = %sandbox, "Could not delete a message of {sandbox} from SQS: {}", chain(&error));
        }
    }))
    .await;
}

/// Hides a received copy for this time from now on.
pub(crate) async fn hide(mailboxes: &Mailboxes, sandbox: &SandboxId, copy: (Queue, &str), secs: i64) {
    let (queue, handle) = copy;
    // It fails if the copy is visible again already, which is no problem.
    if let Err(error) = mailboxes.hide(sandbox, queue, handle, secs).await {
        tracing::debug!(sandbox.id = %sandbox, "Could not hide a message of {sandbox}: {}", chain(&error));
    }
}
