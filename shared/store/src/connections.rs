//! Sockets and what they are subscribed to.
//!
//! A subscription stands under each of its topics, so a broadcast reads the subscribers of an event and
//! nobody else. Each realm has a stamp that moves with every subscription in it: whoever remembers
//! subscribers reads the stamp first, and reads the subscribers again when it has moved.

use crate::error::Error;
use crate::items::{attributes, get_text, number, start, text, value};
use crate::limits::CONNECTION_SECS;
use crate::{Store, keys};
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, KeysAndAttributes, Put, ReturnValue, TransactWriteItem, Update,
};
use domain::access::Principal;
use domain::filter::Filters;
use domain::{ConnectionId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// Who is there; `None` until they have said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Where its subscriptions stand: an org, or every org. `None` until it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// What it wants.
    #[serde(default)]
    pub filters: Filters,
    /// Whether events may come bundled.
    #[serde(default)]
    pub batch: bool,
    /// When it was opened.
    pub connected_at: Timestamp,
    /// When the token ends that it was opened with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// One who wants the events of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    /// Which socket.
    pub connection: ConnectionId,
    /// What else must hold.
    #[serde(default)]
    pub filters: Filters,
    /// Whether events may come bundled.
    #[serde(default)]
    pub batch: bool,
    /// From when on it may not be told anything more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Store {
    /// Stores a socket that has no subscription.
    pub async fn put_connection(&self, connection: &Connection) -> Result<(), Error> {
        let put = self.client.put_item().table_name(&self.table);
        put.set_item(Some(connection_item(connection)?)).send().await.map_err(Error::from_sdk)?;
        Ok(())
    }

    /// A socket, as of now.
    pub async fn connection(&self, id: &ConnectionId) -> Result<Option<Connection>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::connection(id).attributes().into())).send().await;
        found.map_err(Error::from_sdk)?.item.map(value).transpose()
    }

    /// Replaces what a socket is subscribed to. Once this returns, every later event that matches finds it.
    pub async fn resubscribe(&self, before: &Connection, after: &Connection) -> Result<(), Error> {
        let mut writes = vec![self.put_write(connection_item(after)?)?];
        let subscriber = Subscriber {
            connection: after.id.clone(),
            filters: after.filters.clone(),
            batch: after.batch,
            until: after.until,
        };
        let new = topics(after);
        for (realm, topic) in &new {
            let mut item = start(keys::subscription(realm, topic, &after.id), "subscription");
            item.extend(attributes(&subscriber)?);
            item.insert(keys::TTL.into(), expiry(after));
            writes.push(self.put_write(item)?);
        }
        for (realm, topic) in topics(before).iter().filter(|old| !new.contains(old)) {
            writes.push(self.delete_write(keys::subscription(realm, topic, &before.id))?);
        }
        writes.extend(self.stamp_writes([before, after])?);
        self.transact(writes).await
    }

    /// Forgets a socket and its subscriptions. Forgetting one that is not there does nothing.
    pub async fn drop_connection(&self, id: &ConnectionId) -> Result<(), Error> {
        let delete = self.client.delete_item().table_name(&self.table);
        let delete = delete.set_key(Some(keys::connection(id).attributes().into()));
        let gone = delete.return_values(ReturnValue::AllOld).send().await.map_err(Error::from_sdk)?;
        let Some(item) = gone.attributes else { return Ok(()) };
        let connection: Connection = value(item)?;
        let mut writes = Vec::new();
        for (realm, topic) in topics(&connection) {
            writes.push(self.delete_write(keys::subscription(&realm, &topic, id))?);
        }
        if writes.is_empty() {
            return Ok(());
        }
        writes.extend(self.stamp_writes([&connection, &connection])?);
        self.transact(writes).await
    }

    /// Forgets subscriptions that turned out to lead nowhere, whatever is known of their socket.
    pub async fn drop_subscriptions(
        &self,
        realm: &str,
        topics: &[String],
        id: &ConnectionId,
    ) -> Result<(), Error> {
        let mut writes = vec![self.stamp_write(realm)?];
        for topic in topics {
            writes.push(self.delete_write(keys::subscription(realm, topic, id))?);
        }
        self.transact(writes).await
    }

    /// Who is subscribed to a topic.
    pub async fn subscribers(&self, realm: &str, topic: &str) -> Result<Vec<Subscriber>, Error> {
        let mut subscribers = Vec::new();
        let mut from = None;
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("#pk = :pk")
                .expression_attribute_names("#pk", keys::PK)
                .expression_attribute_values(":pk", text(keys::topic_partition(realm, topic)))
                .consistent_read(true)
                .set_exclusive_start_key(from);
            let page = query.send().await.map_err(Error::from_sdk)?;
            for item in page.items.unwrap_or_default() {
                subscribers.push(value(item)?);
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(subscribers);
            }
        }
    }

    /// The stamps of some realms, as of now; 0 where nobody ever subscribed.
    pub async fn stamps(&self, realms: &[&str]) -> Result<HashMap<String, u64>, Error> {
        let mut stamps: HashMap<String, u64> = realms.iter().map(|realm| ((*realm).to_owned(), 0)).collect();
        let wanted = realms.iter().map(|realm| keys::stamp(realm).attributes().into()).collect();
        let keys = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(true).build();
        let keys = keys.map_err(|e| Error::broken("asking for stamps", e))?;
        let got = self.client.batch_get_item().request_items(&self.table, keys).send().await;
        let mut got = got.map_err(Error::from_sdk)?;
        if got.unprocessed_keys.as_ref().is_some_and(|left| !left.is_empty()) {
            return Err(Error::Unavailable {
                code: "throttled".into(),
                source: "stamps were left out".into(),
            });
        }
        for item in got.responses.take().unwrap_or_default().remove(&self.table).unwrap_or_default() {
            let stamp = crate::items::get_number(&item, "stamp")?;
            stamps.insert(get_text(&item, "realm")?.to_owned(), stamp);
        }
        Ok(stamps)
    }

    fn stamp_writes(&self, ends: [&Connection; 2]) -> Result<Vec<TransactWriteItem>, Error> {
        let mut realms: Vec<&str> = ends.iter().filter_map(|end| end.realm.as_deref()).collect();
        realms.dedup();
        realms.into_iter().map(|realm| self.stamp_write(realm)).collect()
    }

    fn stamp_write(&self, realm: &str) -> Result<TransactWriteItem, Error> {
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::stamp(realm).attributes().into()))
            .update_expression("ADD #stamp :one SET #realm = :realm, #kind = :kind, #v = :one")
            .expression_attribute_names("#stamp", "stamp")
            .expression_attribute_names("#realm", "realm")
            .expression_attribute_names("#kind", "kind")
            .expression_attribute_names("#v", "v")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":realm", text(realm))
            .expression_attribute_values(":kind", text("stamp"))
            .build()
            .map_err(|e| Error::broken("moving a stamp", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    fn put_write(&self, item: HashMap<String, AttributeValue>) -> Result<TransactWriteItem, Error> {
        let put = Put::builder().table_name(&self.table).set_item(Some(item)).build();
        Ok(TransactWriteItem::builder().put(put.map_err(|e| Error::broken("putting an item", e))?).build())
    }

    fn delete_write(&self, key: keys::Key) -> Result<TransactWriteItem, Error> {
        let delete = Delete::builder().table_name(&self.table).set_key(Some(key.attributes().into())).build();
        let delete = delete.map_err(|e| Error::broken("deleting an item", e))?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    async fn transact(&self, writes: Vec<TransactWriteItem>) -> Result<(), Error> {
        let transaction = self.client.transact_write_items().set_transact_items(Some(writes));
        transaction.send().await.map_err(Error::from_sdk)?;
        Ok(())
    }
}

/// Where a socket's subscriptions stand. One that has not said who it is has none.
fn topics(connection: &Connection) -> Vec<(String, String)> {
    let Some(realm) = &connection.realm else { return Vec::new() };
    connection.filters.topics().into_iter().map(|topic| (realm.clone(), topic)).collect()
}

fn connection_item(connection: &Connection) -> Result<HashMap<String, AttributeValue>, Error> {
    let mut item = start(keys::connection(&connection.id), "connection");
    item.extend(attributes(connection)?);
    item.insert(keys::TTL.into(), expiry(connection));
    Ok(item)
}

fn expiry(connection: &Connection) -> AttributeValue {
    number(connection.connected_at.as_secs() + CONNECTION_SECS)
}
