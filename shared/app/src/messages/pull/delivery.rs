//! The ledger side of a pull: chooses the messages to deliver and records the delivery in one transaction.

use super::receiver::QueueCopy;
use super::{Command, Confirmation, Delivered, Deps, Mailbox, Outcome, check};
use crate::IdSource;
use crate::error::Error;
use crate::events::emit::{EventBatch, Written};
use crate::messages::queue;
use crate::sandboxes::write_guard::WriteGuard;
use contract::messages::QueuedMessage;
use contract::payloads::{MessageDelivered, MessageFetched, MessageUndeliverable};
use domain::mailbox::Waiting;
use domain::message::{Receipt, State};
use domain::{Message, MessageId, Source, Timestamp};
use futures_util::future::join_all;
use store::ledger::{Change, Fetched};
use store::mailboxes::Queue;

pub(super) struct Delivery {
    pub(super) outcome: Outcome,
    pub(super) delivered: Vec<MessageId>,
    /// The mailbox before the delivery.
    pub(super) mailbox: Mailbox,
}

/// Delivers what is due; `None` if nothing is. `mailbox` may be stale.
pub(super) async fn deliver(
    deps: Deps<'_>,
    command: &Command,
    mailbox: Mailbox,
    copies: &[QueueCopy],
) -> Result<Option<Delivery>, Error> {
    // Nothing was due a moment ago, and no queue brought anything since.
    if copies.is_empty() && mailbox.due(1, deps.clock.now()).is_empty() {
        return Ok(None);
    }
    let mut mailbox = mailbox;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &command.sandbox).await;
    // It was read a moment ago. If it is stale, the write fails and returns the current state.
    guard.advance(mailbox.sandbox.clone());
    loop {
        let sandbox = guard.load(&command.sandbox).await?;
        check(command, &sandbox, deps.clock.now())?;
        if sandbox.version != mailbox.sandbox.version {
            mailbox = Mailbox::of(deps, command, sandbox.clone()).await?;
        }
        let now = deps.clock.now();
        let due = mailbox.due(command.limit, now);
        let selected = select(&due, copies, deps.mailboxes.has_ledger_fallback());
        if selected.is_empty() {
            guard.cache(sandbox);
            return Ok(None);
        }
        let unread = selected.iter().filter(|(waiting, copy)| copy.is_none() || waiting.is_exhausted());
        let unread: Vec<MessageId> = unread.map(|(waiting, _)| waiting.id.clone()).collect();
        let stored = match unread.as_slice() {
            [] => Vec::new(),
            ids => deps.store.messages(&command.sandbox, ids).await?,
        };
        let plan = Plan::new(deps.ids, &selected, stored, command.confirmation, now);
        let after = plan.batch.sandbox_after(&sandbox);
        match plan.batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                let delivered = plan.messages.iter().map(|delivered| delivered.message.id.clone()).collect();
                let outcome = Outcome {
                    messages: plan.messages,
                    returns_at: plan.returns_at,
                    queue_size: after.activity.waiting,
                    from_ledger: plan.from_ledger,
                    undeliverable: plan.undeliverable,
                };
                return Ok(Some(Delivery { outcome, delivered, mailbox }));
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

type Selected<'a> = (&'a Waiting, Option<&'a QueueCopy>);

/// The messages to deliver with their copies. For each queue these are the due messages up to the last one that it
/// brought: SQS may return fewer than it has. If it brought none, the ledger delivers all.
fn select<'a>(due: &'a [Waiting], copies: &'a [QueueCopy], ledger_fallback: bool) -> Vec<Selected<'a>> {
    let mut selected = Vec::new();
    for queue in Queue::ALL {
        let of_queue = due.iter().filter(|waiting| Queue::of(waiting.urgent) == queue);
        let of_queue: Vec<Selected<'a>> =
            of_queue.map(|waiting| (waiting, copies.iter().find(|copy| copy.is_of(waiting)))).collect();
        if ledger_fallback {
            let last = of_queue.iter().rposition(|(_, copy)| copy.is_some());
            selected.extend(&of_queue[..last.map_or(of_queue.len(), |last| last + 1)]);
        } else {
            let brought =
                of_queue.iter().take_while(|(waiting, copy)| copy.is_some() || waiting.is_exhausted());
            selected.extend(brought);
        }
    }
    selected
}

/// A delivery with its events.
struct Plan<'a> {
    messages: Vec<Delivered>,
    from_ledger: usize,
    undeliverable: usize,
    returns_at: Timestamp,
    batch: EventBatch<'a>,
}

impl<'a> Plan<'a> {
    /// `stored` are the messages of entries without a copy, and of those that are exhausted.
    fn new(
        ids: &'a dyn IdSource,
        selected: &[Selected<'_>],
        mut stored: Vec<Message>,
        confirmation: Confirmation,
        now: Timestamp,
    ) -> Self {
        let returns_at = match confirmation {
            Confirmation::Receipts { hidden_secs } => now.plus_secs(hidden_secs),
            Confirmation::Implicit => now,
        };
        let batch = EventBatch::new(ids);
        let mut plan = Self { messages: Vec::new(), from_ledger: 0, undeliverable: 0, returns_at, batch };
        for (waiting, copy) in selected {
            let position = stored.iter().position(|message| message.id == waiting.id);
            let message = position.map(|position| stored.swap_remove(position));
            match (waiting.is_exhausted(), copy, message) {
                (true, _, Some(message)) => plan.give_up(message, now),
                (false, Some(copy), _) => {
                    plan.deliver(waiting, copy.message.clone(), Some(copy.handle.clone()), confirmation, now);
                }
                (false, None, Some(message)) => {
                    plan.from_ledger += 1;
                    plan.deliver(waiting, QueuedMessage::from(&message), None, confirmation, now);
                }
                // An entry without its message. Both are written in one transaction, so this does not happen.
                (_, _, None) => {
                    tracing::error!("Message {} is in a mailbox but not in the ledger", waiting.id);
                }
            }
        }
        plan
    }

    fn deliver(
        &mut self,
        before: &Waiting,
        message: QueuedMessage,
        queue_handle: Option<String>,
        confirmation: Confirmation,
        now: Timestamp,
    ) {
        let receipt = |state| Receipt { state, at: now, detail: None };
        let delivery = before.deliveries + 1;
        // Later deliveries do not change the state.
        let mut receipts: Vec<Receipt> =
            (delivery == 1).then(|| receipt(State::Fetched)).into_iter().collect();
        let message_id = message.id.clone();
        self.batch.event(Source::System, &MessageFetched { message_id: message_id.clone(), delivery });
        let confirmed = confirmation == Confirmation::Implicit;
        if confirmed {
            receipts.push(receipt(State::Delivered));
            // No receipt will follow.
            let delivered = MessageDelivered { message_id, detail: None, last: Some(true) };
            self.batch.event(Source::System, &delivered);
        }
        let waiting = Waiting { deliveries: delivery, hidden_until: Some(self.returns_at), ..before.clone() };
        self.batch.changes.push(Change::Fetched(Fetched { waiting, receipts, queue_handle, confirmed }));
        self.messages.push(Delivered { message, delivery });
    }

    /// The message leaves the mailbox, so that it does not hold back the others permanently.
    fn give_up(&mut self, mut message: Message, now: Timestamp) {
        self.undeliverable += 1;
        let detail = format!("pulled {} times without an acknowledgement", message.deliveries);
        let (message_id, deliveries) = (message.id.clone(), message.deliveries);
        let undeliverable = MessageUndeliverable { message_id, detail: detail.clone(), deliveries };
        message.advance(Receipt { state: State::Undeliverable, at: now, detail: Some(detail) });
        self.batch.event(Source::System, &undeliverable);
        self.batch.changes.push(Change::Resolved(message));
    }
}

/// Extends the visibility timeout of the messages that the worker holds, if a third of it has passed.
pub(super) async fn extend(deps: Deps<'_>, command: &Command, mailbox: Mailbox) -> Result<Mailbox, Error> {
    let hidden_secs = command.confirmation.hidden_secs();
    if !mailbox.waiting.iter().any(|waiting| command.holding.contains(&waiting.id)) {
        return Ok(mailbox);
    }
    let mut mailbox = mailbox;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &command.sandbox).await;
    guard.advance(mailbox.sandbox.clone());
    loop {
        let now = deps.clock.now();
        let ends_soon = |waiting: &Waiting| {
            let until =
                waiting.hidden_until.filter(|until| *until <= now.plus_secs(hidden_secs - hidden_secs / 3));
            until.is_some() && command.holding.contains(&waiting.id)
        };
        let sandbox = guard.load(&command.sandbox).await?;
        check(command, &sandbox, deps.clock.now())?;
        if sandbox.version != mailbox.sandbox.version {
            mailbox = Mailbox::of(deps, command, sandbox.clone()).await?;
        }
        if !mailbox.waiting.iter().any(ends_soon) {
            guard.cache(sandbox);
            return Ok(mailbox);
        }
        let mut batch = EventBatch::new(deps.ids);
        let mut held = Vec::new();
        for waiting in mailbox.waiting.iter_mut().filter(|waiting| ends_soon(waiting)) {
            waiting.hidden_until = Some(now.plus_secs(hidden_secs));
            batch.changes.push(Change::Extended(waiting.clone()));
            held.push(waiting.id.clone());
        }
        let after = batch.sandbox_after(&sandbox);
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache((*sandbox).clone());
                drop(guard);
                let messages = deps.store.messages(&command.sandbox, &held).await?;
                let handles = messages
                    .iter()
                    .filter_map(|message| Some((queue::queue_of(message), message.queue_handle.as_deref()?)));
                join_all(
                    handles.map(|copy| queue::hide(deps.mailboxes, &command.sandbox, copy, hidden_secs)),
                )
                .await;
                mailbox.sandbox = *sandbox;
                return Ok(mailbox);
            }
            Written::Conflict(current) => guard.conflict(current).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}
