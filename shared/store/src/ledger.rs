//! The ledger of messages: what was sent to a sandbox, how far it has come, and what waits.
//!
//! A message is up to three items: itself, its place in the history, and its place among those that wait, which is gone
//! once a worker has confirmed it. All of them change only together with the sandbox's head ([`crate::log::Append`]), so
//! the condition on the head's version is the only one that is needed: whoever has read the head and then these items
//! writes on top of exactly what they saw.

use crate::error::Error;
use crate::items::{Item, attributes, get_text, start, text, value};
use crate::log::Fresh;
use crate::{Store, keys};
use aws_sdk_dynamodb::types::{Delete, TransactWriteItem};
use domain::mailbox::Waiting;
use domain::{Message, MessageId, SandboxId, Timestamp};

/// What happens to a message in the transaction that tells of it.
#[derive(Debug, Clone)]
pub enum Change {
    /// It is sent, under the condition that its id was not used.
    Sent(Message),
    /// It is handed out, and comes back then.
    HandedOut(Message, Timestamp),
    /// A worker has confirmed it, or it was given up: it waits no longer.
    Settled(Message),
    /// It has come further since.
    Noted(Message),
}

/// A page of the history.
#[derive(Debug)]
pub struct MessagePage {
    /// Newest first.
    pub messages: Vec<Message>,
    /// Whether there are older ones.
    pub has_more: bool,
}

impl Store {
    /// The first `limit` of those that wait, in the mailbox's order.
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

    /// Messages by their ids, at most a hundred, in the order of the ids. Ids that nobody used are left out.
    pub async fn messages(&self, id: &SandboxId, wanted: &[MessageId]) -> Result<Vec<Message>, Error> {
        let keys = wanted.iter().map(|message| keys::message(id, message).attributes().into()).collect();
        let found: Result<Vec<Message>, Error> = self.get_all(keys).await?.into_iter().map(value).collect();
        let mut found = found?;
        found.sort_by_key(|message| wanted.iter().position(|id| *id == message.id));
        Ok(found)
    }

    /// Messages that were sent before the one with this number, newest first.
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
            .expression_attribute_values(":first", text(keys::mail(id, 0).sk))
            .expression_attribute_values(":last", text(keys::mail(id, before.saturating_sub(1)).sk))
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

    /// The writes of a change. That of a message that is sent comes first, as its condition may fail.
    pub(crate) fn change_writes(
        &self,
        id: &SandboxId,
        change: &Change,
    ) -> Result<Vec<TransactWriteItem>, Error> {
        let (message, fresh) = match change {
            Change::Sent(message) => (message, Fresh::Required),
            Change::HandedOut(message, _) | Change::Settled(message) | Change::Noted(message) => {
                (message, Fresh::Unchecked)
            }
        };
        let mut item = start(keys::message(id, &message.id), MESSAGE);
        item.extend(attributes(message)?);
        let mut writes = vec![self.put(item, fresh)?];
        match change {
            Change::Sent(_) => {
                let mut mail = start(keys::mail(id, message.number), "mail");
                mail.insert("id".into(), text(message.id.as_str()));
                writes.push(self.put(mail, Fresh::Unchecked)?);
                writes.push(self.put(waiting_item(id, message, None)?, Fresh::Unchecked)?);
            }
            Change::HandedOut(_, until) => {
                writes.push(self.put(waiting_item(id, message, Some(*until))?, Fresh::Unchecked)?);
            }
            Change::Settled(_) => writes.push(self.delete(waiting_key(id, message))?),
            Change::Noted(_) => {}
        }
        Ok(writes)
    }

    pub(crate) fn delete(&self, key: keys::Key) -> Result<TransactWriteItem, Error> {
        let delete = Delete::builder().table_name(&self.table).set_key(Some(key.attributes().into())).build();
        let delete = delete.map_err(|e| Error::broken("deleting an item", e))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    /// Deletes what must be there.
    pub(crate) fn delete_known(&self, key: keys::Key) -> Result<TransactWriteItem, Error> {
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(key.attributes().into()))
            .condition_expression("attribute_exists(#pk)")
            .expression_attribute_names("#pk", keys::PK);
        let delete = delete.build().map_err(|e| Error::broken("deleting an item", e))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }
}

/// The kind of a message's item.
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
