//! The ledger of messages: what was sent to a sandbox, the state of each message, and which of them wait in the
//! mailbox.
//!
//! A message is up to three items: the message, its position in the history, and its position in the mailbox, which
//! is deleted when a worker confirms the message. They change only in a transaction that also writes the sandbox
//! ([`crate::log::Append`]), so the condition on the sandbox's version is sufficient: a writer that has read the
//! sandbox and then these items overwrites exactly what it has read.

use crate::error::Error;
use crate::items::{Item, attributes, get_text, number, start, text, value};
use crate::log::Existing;
use crate::{Store, keys};
use aws_sdk_dynamodb::types::{Delete, TransactWriteItem, Update};
use domain::mailbox::Waiting;
use domain::message::Receipt;
use domain::{Message, MessageId, SandboxId};

/// A change to a message.
#[derive(Debug, Clone)]
pub enum Change {
    /// Sent, under the condition that its id is unused.
    Sent(Message),
    /// An undeliverable message, back in the mailbox.
    SentAgain(Message),
    /// Pulled by a worker.
    Fetched(Fetched),
    /// The worker still holds it: its visibility timeout is extended.
    Extended(Waiting),
    /// Confirmed by a worker, cancelled or undeliverable: it leaves the mailbox.
    Resolved(Message),
    /// Its state changed after it left the mailbox.
    Updated(Message),
}

/// A delivery to a worker. Holds only what changes, so that a pull need not read the message.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The mailbox entry after the delivery.
    pub waiting: Waiting,
    /// States that the message has reached with it.
    pub receipts: Vec<Receipt>,
    pub queue_handle: Option<String>,
    /// Whether the delivery also confirms it: the message leaves the mailbox.
    pub confirmed: bool,
}

impl Change {
    pub fn enters_mailbox(&self) -> bool {
        matches!(self, Self::Sent(_) | Self::SentAgain(_))
    }

    pub fn leaves_mailbox(&self) -> bool {
        match self {
            Self::Fetched(fetched) => fetched.confirmed,
            Self::Resolved(_) => true,
            Self::Sent(_) | Self::SentAgain(_) | Self::Extended(_) | Self::Updated(_) => false,
        }
    }
}

#[derive(Debug)]
pub struct MessagePage {
    /// Newest first.
    pub messages: Vec<Message>,
    /// Whether there are older messages.
    pub has_more: bool,
}

impl Store {
    /// The first `limit` messages in the mailbox, in the order of delivery.
    pub async fn waiting_messages(&self, id: &SandboxId, limit: usize) -> Result<Vec<Waiting>, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND begins_with(#sk, :waiting)")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::sandbox(id).pk))
            .expression_attribute_values(":waiting", text(keys::WAITING))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        page.items.unwrap_or_default().into_iter().map(value).collect()
    }

    /// Up to 100 messages by id, in the order of `wanted`. Unused ids are left out.
    pub async fn messages(&self, id: &SandboxId, wanted: &[MessageId]) -> Result<Vec<Message>, Error> {
        let keys = wanted.iter().map(|message| keys::message(id, message).attributes().into()).collect();
        let found: Result<Vec<Message>, Error> = self.get_all(keys).await?.into_iter().map(value).collect();
        let mut found = found?;
        found.sort_by_key(|message| wanted.iter().position(|id| *id == message.id));
        Ok(found)
    }

    /// Messages with a lower number than `before`, newest first.
    pub async fn messages_before(
        &self,
        id: &SandboxId,
        before: u64,
        limit: usize,
    ) -> Result<MessagePage, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :first AND :last")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::sandbox(id).pk))
            .expression_attribute_values(":first", text(keys::message_history(id, 0).sk))
            .expression_attribute_values(
                ":last",
                text(keys::message_history(id, before.saturating_sub(1)).sk),
            )
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        let has_more = page.last_evaluated_key.is_some();
        let ids = page.items.unwrap_or_default();
        let ids = ids.iter().map(|item| {
            let id = get_text(item, "id")?;
            MessageId::parse(id).map_err(|e| Error::broken("reading the history", e))
        });
        let ids: Vec<MessageId> = ids.collect::<Result<_, _>>()?;
        Ok(MessagePage { messages: self.messages(id, &ids).await?, has_more })
    }

    /// The writes of a change. The message comes first: callers rely on its index to recognize that its condition
    /// failed.
    pub(crate) fn change_writes(
        &self,
        id: &SandboxId,
        change: &Change,
    ) -> Result<Vec<TransactWriteItem>, Error> {
        Ok(match change {
            Change::Sent(message) => {
                let mut history = start(keys::message_history(id, message.number), "message_history");
                history.insert("id".into(), text(message.id.as_str()));
                vec![
                    self.put(message_item(id, message)?, Existing::Reject)?,
                    self.put(history, Existing::Overwrite)?,
                    self.put_waiting(id, &Waiting::of(message, None))?,
                ]
            }
            Change::SentAgain(message) => vec![
                self.put(message_item(id, message)?, Existing::Overwrite)?,
                self.put_waiting(id, &Waiting::of(message, None))?,
            ],
            Change::Fetched(fetched) => vec![
                self.record_delivery(id, fetched)?,
                match fetched.confirmed {
                    true => self.delete(waiting_key(id, &fetched.waiting))?,
                    false => self.put_waiting(id, &fetched.waiting)?,
                },
            ],
            Change::Extended(waiting) => vec![self.put_waiting(id, waiting)?],
            Change::Resolved(message) => vec![
                self.put(message_item(id, message)?, Existing::Overwrite)?,
                self.delete(waiting_key(id, &Waiting::of(message, None)))?,
            ],
            Change::Updated(message) => vec![self.put(message_item(id, message)?, Existing::Overwrite)?],
        })
    }

    /// Adds a delivery to a message that exists.
    fn record_delivery(&self, id: &SandboxId, fetched: &Fetched) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::message(id, &fetched.waiting.id).attributes().into()))
            .expression_attribute_names("#deliveries", "deliveries")
            .expression_attribute_values(":deliveries", number(fetched.waiting.deliveries));
        let mut set = "SET #deliveries = :deliveries".to_owned();
        if !fetched.receipts.is_empty() {
            set.push_str(", #receipts = list_append(#receipts, :receipts)");
            let receipts = serde_dynamo::aws_sdk_dynamodb_1::to_attribute_value(&fetched.receipts);
            update = update.expression_attribute_names("#receipts", "receipts").expression_attribute_values(
                ":receipts",
                receipts.map_err(|e| Error::broken("writing receipts", e))?,
            );
        }
        // A handle of an earlier delivery stays: its copy may still be on the queue.
        if let Some(handle) = &fetched.queue_handle {
            set.push_str(", #handle = :handle");
            update = update
                .expression_attribute_names("#handle", "queue_handle")
                .expression_attribute_values(":handle", text(handle));
        }
        let update = update.update_expression(set).build();
        let update = update.map_err(|e| Error::broken("recording a delivery", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    fn put_waiting(&self, id: &SandboxId, waiting: &Waiting) -> Result<TransactWriteItem, Error> {
        let mut item = start(waiting_key(id, waiting), "waiting");
        item.extend(attributes(waiting)?);
        self.put(item, Existing::Overwrite)
    }

    pub(crate) fn delete(&self, key: keys::Key) -> Result<TransactWriteItem, Error> {
        let delete = Delete::builder().table_name(&self.table).set_key(Some(key.attributes().into())).build();
        let delete = delete.map_err(|e| Error::broken("deleting an item", e))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    /// Deletes an item that must exist.
    pub(crate) fn delete_existing(&self, key: keys::Key) -> Result<TransactWriteItem, Error> {
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(key.attributes().into()))
            .condition_expression("attribute_exists(#pk)")
            .expression_attribute_names("#pk", keys::PK);
        let delete = delete.build().map_err(|e| Error::broken("deleting an item", e))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }
}

/// `kind` of a message.
pub(crate) const MESSAGE: &str = "message";

fn message_item(id: &SandboxId, message: &Message) -> Result<Item, Error> {
    let mut item = start(keys::message(id, &message.id), MESSAGE);
    item.extend(attributes(message)?);
    Ok(item)
}

fn waiting_key(id: &SandboxId, waiting: &Waiting) -> keys::Key {
    keys::waiting(id, waiting.urgent, waiting.position)
}
