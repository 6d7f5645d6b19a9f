//! Applies the receipts of a worker to its messages.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, event_of};
use crate::messages::{self, queue};
use crate::quotas;
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, visibility};
use contract::messages::{Acknowledged, ReceiptIn, ReceiptOut};
use contract::payloads::{MessageCancelled, MessageCompleted, MessageDelivered, MessageStarted};
use domain::access::Principal;
use domain::event::LifecycleEvent;
use domain::ingest::NewEvent;
use domain::message::{Receipt, State};
use domain::quota::{Amount, QuotaOwner};
use domain::{Invalid, Message, MessageId, SandboxId, Source, Timestamp};
use store::ledger::Change;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub messages: messages::Deps<'a>,
    pub quotas: quotas::Deps<'a>,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub receipts: Vec<ReceiptIn>,
    /// Size of the request.
    pub body_bytes: u64,
}

/// The current states of the messages.
pub type Outcome = Acknowledged;

/// Idempotent: a retry, or a receipt that arrives after a later one, changes nothing and gets the current state.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Deps { messages: deps, quotas } = deps;
    let Command { principal, sandbox: sandbox_id, receipts, body_bytes } = command;
    let (ids, mut is_charged) = (ids_of(&receipts), false);
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &sandbox_id).await;
    loop {
        let sandbox = guard.load(&sandbox_id).await?;
        visibility::check_report(&principal, &sandbox, deps.clock.now())?;
        let messages = deps.store.messages(&sandbox_id, &ids).await?;
        let now = deps.clock.now();
        let Applied { receipts: responses, batch } = Applied::new(deps.ids, messages, &receipts, now)?;
        let after = batch.sandbox_after(&sandbox);
        let queue_size = after.activity.waiting;
        let outcome = Acknowledged {
            status: "acknowledged".into(),
            sandbox_id: sandbox_id.clone(),
            receipts: responses,
            queue_size,
        };
        if batch.events.is_empty() {
            guard.cache(sandbox);
            return Ok(outcome);
        }
        if let Some(org) = QuotaOwner::org_of_worker(&principal, &sandbox).filter(|_| !is_charged) {
            quotas::charge(quotas, &[org], Amount::new(1, body_bytes)).await?;
            is_charged = true;
        }
        let resolved = resolved(&batch.changes);
        match batch.write(deps.store, &sandbox, &after, now).await? {
            Written::Stored(sandbox) => {
                guard.cache(*sandbox);
                drop(guard);
                // SQS returns the messages behind these from now on.
                queue::delete_copies(deps.mailboxes, &sandbox_id, &resolved).await;
                return Ok(outcome);
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// The messages that leave the mailbox.
fn resolved(changes: &[Change]) -> Vec<Message> {
    let resolved = changes.iter().filter_map(|change| match change {
        Change::Resolved(message) => Some(message.clone()),
        _ => None,
    });
    resolved.collect()
}

fn ids_of(receipts: &[ReceiptIn]) -> Vec<MessageId> {
    let mut ids: Vec<MessageId> = Vec::new();
    for receipt in receipts {
        if !ids.contains(&receipt.message_id) {
            ids.push(receipt.message_id.clone());
        }
    }
    ids
}

/// The result of applying receipts.
struct Applied<'a> {
    receipts: Vec<ReceiptOut>,
    batch: EventBatch<'a>,
}

/// The event of a message that has reached a state that a worker reports.
fn receipt_event(
    ids: &dyn IdSource,
    message_id: MessageId,
    state: State,
    detail: Option<String>,
) -> Result<NewEvent, Error> {
    let event = match state {
        State::Delivered => LifecycleEvent::new(&MessageDelivered { message_id, detail, last: None }),
        State::Started => LifecycleEvent::new(&MessageStarted { message_id, detail }),
        State::Completed => LifecycleEvent::new(&MessageCompleted { message_id, detail }),
        State::Cancelled => LifecycleEvent::new(&MessageCancelled { message_id, detail, by: None }),
        // The decoder rejects these.
        State::Queued | State::Fetched | State::Undeliverable => {
            return Err(Error::Internal(format!("a worker cannot report {state}").into()));
        }
    };
    Ok(NewEvent { source: Source::Worker, ..event_of(ids, event) })
}

impl<'a> Applied<'a> {
    fn new(
        ids: &'a dyn IdSource,
        before: Vec<Message>,
        receipts: &[ReceiptIn],
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut messages = before.clone();
        let (mut responses, mut batch) = (Vec::new(), EventBatch::new(ids));
        for (index, receipt) in receipts.iter().enumerate() {
            let Some(message) = messages.iter_mut().find(|message| message.id == receipt.message_id) else {
                let field = format!("receipts[{index}].message_id");
                return Err(Invalid::new(field, "does not name a message of this sandbox").into());
            };
            let ReceiptIn { message_id, state, detail } = receipt.clone();
            let changed = message.advance(Receipt { state, at: now, detail: detail.clone() });
            if changed {
                batch.events.push(receipt_event(ids, message_id.clone(), state, detail)?);
            }
            responses.push(ReceiptOut { message_id, state: message.state(), changed });
        }
        let pairs = before.iter().zip(messages).filter(|(before, after)| before.state() != after.state());
        let changes = pairs.map(|(before, after)| match before.is_waiting() {
            true => Change::Resolved(after),
            false => Change::Updated(after),
        });
        batch.changes = changes.collect();
        Ok(Self { receipts: responses, batch })
    }
}
