//! Notes what a worker says of its messages.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, ring};
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, visibility};
use contract::messages::{Acknowledged, ReceiptIn, ReceiptOut};
use domain::access::Principal;
use domain::message::Receipt;
use domain::{Invalid, Message, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use store::ledger::Change;
use store::mailboxes::WakeUp;

pub use crate::messages::Deps;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// What the worker says.
    pub receipts: Vec<ReceiptIn>,
}

/// How far the messages have come now.
pub type Outcome = Acknowledged;

/// A repeat, and a receipt that comes after a later one, changes nothing and is told how far the message has come.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, receipts } = command;
    let ids = ids_of(&receipts);
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, &sandbox).await;
    loop {
        let head = turn.seen(&sandbox).await?;
        visibility::check(&principal, &head)?;
        let messages = deps.store.messages(&sandbox, &ids).await?;
        let now = deps.clock.now();
        let noted = Noted::of(deps.ids, messages, &receipts, now)?;
        let tale = noted.tale;
        let settled = tale.settled();
        let after = tale.sandbox_after(&head);
        let queue_size = after.activity.waiting;
        let (status, sandbox_id, receipts) = ("acknowledged".into(), sandbox.clone(), noted.receipts);
        let outcome = Acknowledged { status, sandbox_id, receipts, queue_size };
        if tale.events.is_empty() {
            turn.keep(head);
            return Ok(outcome);
        }
        match tale.write(deps.store, &head, &after, now).await? {
            Written::Stored(head) => {
                let version = head.version;
                turn.keep(*head);
                drop(turn);
                // What was held back behind these may go now, and somebody may be waiting for it.
                if settled > 0 && queue_size > 0 {
                    ring(deps.mailboxes, &sandbox, WakeUp::Settled(version)).await;
                }
                return Ok(outcome);
            }
            Written::Conflict(head) => turn.lost(head).await?,
            Written::MessageKnown(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
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

/// What the receipts come to.
struct Noted<'a> {
    receipts: Vec<ReceiptOut>,
    tale: EventBatch<'a>,
}

impl<'a> Noted<'a> {
    fn of(
        ids: &'a dyn IdSource,
        before: Vec<Message>,
        receipts: &[ReceiptIn],
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut messages = before.clone();
        let (mut told, mut tale) = (Vec::new(), EventBatch::new(ids));
        for (index, receipt) in receipts.iter().enumerate() {
            let Some(message) = messages.iter_mut().find(|message| message.id == receipt.message_id) else {
                let field = format!("receipts[{index}].message_id");
                return Err(Invalid::new(field, "is no message to this sandbox").into());
            };
            let ReceiptIn { message_id, state, detail } = receipt.clone();
            let changed = message.advance(Receipt { state, at: now, detail: detail.clone() });
            if changed {
                let mut data = json!({"message_id": message_id});
                if let Some(detail) = detail {
                    data["detail"] = detail.into();
                }
                tale.message(state, Source::Worker, &data);
            }
            told.push(ReceiptOut { message_id, state: message.state(), changed });
        }
        let pairs = before.iter().zip(messages).filter(|(before, after)| before.state() != after.state());
        let changes = pairs.map(|(before, after)| match before.is_waiting() {
            true => Change::Settled(after),
            false => Change::Noted(after),
        });
        tale.changes = changes.collect();
        Ok(Self { receipts: told, tale })
    }
}
