//! The ledger of messages: what was sent to a sandbox, the state of each message, and which of them wait in the
//! mailbox.
//!
//! A message is up to three items: the message, its position in the history, and its position in the mailbox, which
//! is deleted when a worker confirms the message. They change only in a transaction that also writes the sandbox
//! ([`crate::log::Append`]), so the condition on the sandbox's version is sufficient: a writer that has read the
//! sandbox and then these items overwrites exactly what it has read.

use crate::error::Error;
use crate::items::{Item, attributes, get_text, start, text, value};
use crate::log::Existing;
use crate::{Store, keys};
use aws_sdk_dynamodb::types::{Delete, TransactWriteItem};
use domain::mailbox::Waiting;
use domain::{Message, MessageId, SandboxId, Timestamp};

/// A change to a message.
#[derive(Debug, Clone)]
pub enum Change {
    /// Sent, under the condition that its id is unused.
    Sent(Message),
    /// Fetched by a worker, and hidden from other pulls until then.
    Fetched(Message, Timestamp),
    /// Confirmed by a worker or cancelled: it leaves the mailbox.
    Resolved(Message),
    /// Its state changed after it left the mailbox.
    Updated(Message),
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
        let (message, existing) = match change {
            Change::Sent(message) => (message, Existing::Reject),
            Change::Fetched(message, _) | Change::Resolved(message) | Change::Updated(message) => {
                (message, Existing::Overwrite)
            }
        };
        let mut item = start(keys::message(id, &message.id), MESSAGE);
        item.extend(attributes(message)?);
        let mut writes = vec![self.put(item, existing)?];
        match change {
            Change::Sent(_) => {
                let mut history = start(keys::message_history(id, message.number), "message_history");
                history.insert("id".into(), text(message.id.as_str()));
                writes.push(self.put(history, Existing::Overwrite)?);
                writes.push(self.put(waiting_item(id, message, None)?, Existing::Overwrite)?);
            }
            Change::Fetched(_, until) => {
                writes.push(self.put(waiting_item(id, message, Some(*until))?, Existing::Overwrite)?);
            }
            Change::Resolved(_) => writes.push(self.delete(waiting_key(id, message))?),
            Change::Updated(_) => {}
        }
        Ok(writes)
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

fn waiting_key(id: &SandboxId, message: &Message) -> keys::Key {
    keys::waiting(id, message.message_type.is_urgent(), message.number)
}

fn waiting_item(id: &SandboxId, message: &Message, hidden_until: Option<Timestamp>) -> Result<Item, Error> {
    let mut item = start(waiting_key(id, message), "waiting");
    item.extend(attributes(&Waiting {
        id: message.id.clone(),
        number: message.number,
        urgent: message.message_type.is_urgent(),
        hidden_until,
    })?);
    Ok(item)
}
