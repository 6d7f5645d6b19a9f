//! Notes what a worker says of its messages.

use crate::error::{Error, chain};
use crate::lanes::Lanes;
use crate::telling::{of_message, tell};
use crate::turn::Turn;
use crate::{Clock, sight};
use contract::messages::{Acknowledged, ReceiptIn, ReceiptOut};
use domain::access::Principal;
use domain::ingest::NewEvent;
use domain::message::Receipt;
use domain::{Invalid, Message, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use store::ledger::Change;
use store::log::Appended;
use store::{Mailboxes, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the ledger; writes them and the log.
    pub store: &'a Store,
    /// Rings for those that are no longer held back.
    pub mailboxes: &'a Mailboxes,
    /// The process's lanes.
    pub lanes: &'a Lanes,
    /// The time.
    pub clock: &'a dyn Clock,
}

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
    let mut turn = Turn::begin(deps.store, deps.lanes, deps.clock, &sandbox).await;
    loop {
        let head = turn.seen(&sandbox).await?;
        sight::check(&principal, &head)?;
        let messages = deps.store.messages(&sandbox, &ids).await?;
        let now = deps.clock.now();
        let noted = Noted::of(messages, &receipts, now)?;
        let mut after = head.telling(&noted.events);
        let settled = noted.settled();
        after.activity.waiting -= settled.min(head.activity.waiting);
        let queue_size = after.activity.waiting;
        let outcome = Acknowledged {
            status: "acknowledged".into(),
            sandbox_id: sandbox.clone(),
            receipts: noted.receipts,
            queue_size,
        };
        if noted.events.is_empty() {
            turn.keep(head);
            return Ok(outcome);
        }
        match tell(deps.store, (&head, &after), noted.events, &noted.changes, now).await? {
            Appended::Stored(head) => {
                let bell = format!("settled-{}", head.version);
                turn.keep(*head);
                drop(turn);
                if settled > 0 && queue_size > 0 {
                    ring(deps, &sandbox, &bell).await;
                }
                return Ok(outcome);
            }
            Appended::HeadMoved(head) => turn.lost(head).await?,
            odd => return Err(Error::Internal(format!("receipts were not stored: {odd:?}").into())),
        }
    }
}

/// What was held back behind these may go now, and somebody may be waiting for it.
async fn ring(deps: Deps<'_>, sandbox: &SandboxId, bell: &str) {
    if let Err(error) = deps.mailboxes.ring(sandbox, bell).await {
        tracing::warn!(sandbox.id = %sandbox, "Could not ring for what waits for {sandbox}: {}", chain(&error));
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
struct Noted {
    receipts: Vec<ReceiptOut>,
    events: Vec<NewEvent>,
    changes: Vec<Change>,
}

impl Noted {
    fn of(before: Vec<Message>, receipts: &[ReceiptIn], now: Timestamp) -> Result<Self, Error> {
        let mut messages = before.clone();
        let (mut told, mut events) = (Vec::new(), Vec::new());
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
                events.push(of_message(state, Source::Worker, &data));
            }
            told.push(ReceiptOut { message_id, state: message.state(), changed });
        }
        let pairs = before.iter().zip(messages).filter(|(before, after)| before.state() != after.state());
        let changes = pairs.map(|(before, after)| match before.is_waiting() {
            true => Change::Settled(after),
            false => Change::Noted(after),
        });
        Ok(Self { receipts: told, events, changes: changes.collect() })
    }

    fn settled(&self) -> u64 {
        self.changes.iter().filter(|change| matches!(change, Change::Settled(_))).count() as u64
    }
}
