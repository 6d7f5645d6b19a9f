//! Sockets and their subscriptions.
//!
//! A subscription is stored under each of its topics, so a broadcast reads only the subscribers of an event. Each
//! realm has a subscription version that increments with every subscription change in it. A process that caches
//! subscribers reads the version first, and reads the subscribers again when it has changed.

use crate::error::Error;
use crate::items::{attributes, get_number, get_text, number, start, text, value};
use crate::limits::{CONNECTION_SECS, MAX_BATCH_GET};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnValue, TransactWriteItem};
use domain::access::Principal;
use domain::filter::Filters;
use domain::{ConnectionId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    pub id: ConnectionId,
    /// `None` only before the socket is stored: nothing is stored about one that is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// The realm of its subscriptions: an org, or all orgs. `None` until it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    #[serde(default)]
    pub filters: Filters,
    /// Whether several events may be sent in one frame.
    #[serde(default)]
    pub batch: bool,
    /// Increments with every change, for optimistic concurrency. 0 before it is stored.
    #[serde(default)]
    pub version: u64,
    pub connected_at: Timestamp,
    /// When its token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The latest changes, for the rate limit.
    #[serde(default)]
    pub changes: Changes,
}

/// Number of subscription changes of a socket within a window of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Number of the window since 1970.
    pub window: i64,
    pub count: u32,
}

/// A subscription of a socket to a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    pub connection: ConnectionId,
    /// Which events of the topic to send.
    #[serde(default)]
    pub filters: Filters,
    /// Whether several events may be sent in one frame.
    #[serde(default)]
    pub batch: bool,
    /// When its token expires. No event is sent after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When the handshake of its socket started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// A worker's token generation. No event of a later generation is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resubscribed {
    Stored,
    /// Another writer changed or deleted the socket: read it again.
    Conflict,
}

impl Connection {
    /// A socket that is not stored.
    pub fn new(id: ConnectionId, connected_at: Timestamp) -> Self {
        Self {
            id,
            principal: None,
            realm: None,
            filters: Filters::default(),
            batch: false,
            version: 0,
            connected_at,
            until: None,
            changes: Changes::default(),
        }
    }
}

impl Store {
    /// A consistent read.
    pub async fn connection(&self, id: &ConnectionId) -> Result<Option<Connection>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::connection(id).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(value).transpose()
    }

    /// Replaces the subscriptions of a socket. Every event stored after this returns is matched against the new ones.
    ///
    /// The subscription version increments after the transaction, not in it: it is one item for a whole realm, and
    /// concurrent transactions on one item fail. A broadcast that reads the version before the increment may miss the
    /// new subscription, but that one is not confirmed yet.
    pub async fn resubscribe(
        &self,
        before: &Connection,
        after: &mut Connection,
    ) -> Result<Resubscribed, Error> {
        after.version = before.version + 1;
        let mut writes = vec![self.connection_write(before, after)?];
        let subscriber = Subscriber {
            connection: after.id.clone(),
            filters: after.filters.clone(),
            batch: after.batch,
            until: after.until,
            since: Some(after.connected_at),
            generation: match &after.principal {
                Some(Principal::Worker { generation, .. }) => Some(*generation),
                _ => None,
            },
        };
        let new = topics(after);
        for (realm, topic) in &new {
            let mut item = start(keys::subscription(realm, topic, &after.id), "subscription");
            item.extend(attributes(&subscriber)?);
            item.insert(keys::TTL.into(), expiry(after));
            let put = Put::builder().table_name(&self.table).set_item(Some(item)).build();
            let put = put.map_err(|e| Error::broken("storing a subscription", e))?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        for (realm, topic) in topics(before).iter().filter(|old| !new.contains(old)) {
            writes.push(self.delete(keys::subscription(realm, topic, &before.id))?);
        }
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => {}
            Err(SdkError::ServiceError(refused)) if is_conflict(refused.err()) => {
                return Ok(Resubscribed::Conflict);
            }
            Err(error) => return Err(Error::from_table(error)),
        }
        for realm in [&before.realm, &after.realm].into_iter().flatten().collect::<BTreeSet<_>>() {
            self.increment_subscription_version(realm).await?;
        }
        Ok(Resubscribed::Stored)
    }

    /// Deletes a socket and its subscriptions. Idempotent.
    pub async fn delete_connection(&self, id: &ConnectionId) -> Result<(), Error> {
        let delete = self.client.delete_item().table_name(&self.table);
        let delete = delete.set_key(Some(keys::connection(id).attributes().into()));
        let deleted = delete.return_values(ReturnValue::AllOld).send().await.map_err(Error::from_table)?;
        let Some(item) = deleted.attributes else { return Ok(()) };
        let connection: Connection = value(item)?;
        let Some(realm) = &connection.realm else { return Ok(()) };
        self.delete_subscriptions(realm, &connection.filters.topics(), id).await
    }

    /// Deletes subscriptions of a socket that no longer exists, whether its connection item exists or not.
    pub async fn delete_subscriptions(
        &self,
        realm: &str,
        topics: &[String],
        id: &ConnectionId,
    ) -> Result<(), Error> {
        let deletes = topics.iter().map(|topic| self.delete(keys::subscription(realm, topic, id)));
        let deletes = deletes.collect::<Result<Vec<_>, _>>()?;
        let transaction = self.client.transact_write_items().set_transact_items(Some(deletes));
        transaction.send().await.map_err(Error::from_table)?;
        self.increment_subscription_version(realm).await
    }

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
            let page = query.send().await.map_err(Error::from_table)?;
            for item in page.items.unwrap_or_default() {
                subscribers.push(value(item)?);
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(subscribers);
            }
        }
    }

    /// The subscription versions of realms, read consistently. 0 if a realm never had a subscription.
    pub async fn subscription_versions(&self, realms: &[&str]) -> Result<HashMap<String, u64>, Error> {
        let mut versions: HashMap<String, u64> =
            realms.iter().map(|realm| ((*realm).to_owned(), 0)).collect();
        for chunk in realms.chunks(MAX_BATCH_GET) {
            let wanted =
                chunk.iter().map(|realm| keys::subscription_version(realm).attributes().into()).collect();
            for item in self.get_all(wanted).await? {
                versions.insert(get_text(&item, "realm")?.to_owned(), get_number(&item, "version")?);
            }
        }
        Ok(versions)
    }

    async fn increment_subscription_version(&self, realm: &str) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(keys::subscription_version(realm).attributes().into()))
            .update_expression("ADD #version :one SET #realm = :realm, #kind = :kind, #v = :one")
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#realm", "realm")
            .expression_attribute_names("#kind", "kind")
            .expression_attribute_names("#v", "v")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":realm", text(realm))
            .expression_attribute_values(":kind", text("subscription_version"));
        update.send().await.map_err(Error::from_table)?;
        Ok(())
    }

    /// Writes the socket if its version has not changed. A deleted socket stays deleted.
    fn connection_write(&self, before: &Connection, after: &Connection) -> Result<TransactWriteItem, Error> {
        let mut item = start(keys::connection(&after.id), "connection");
        item.extend(attributes(after)?);
        item.insert(keys::TTL.into(), expiry(after));
        let put = Put::builder().table_name(&self.table).set_item(Some(item));
        let put = match before.version {
            0 => put
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", keys::PK),
            version => put
                .condition_expression("#version = :version")
                .expression_attribute_names("#version", "version")
                .expression_attribute_values(":version", number(version)),
        };
        let put = put.build().map_err(|e| Error::broken("storing a socket", e))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }
}

fn is_conflict(error: &TransactWriteItemsError) -> bool {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { return false };
    let mut codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    codes.any(|code| matches!(code, "ConditionalCheckFailed" | "TransactionConflict"))
}

/// Realm and topic of each subscription. An unauthenticated socket has none.
fn topics(connection: &Connection) -> Vec<(String, String)> {
    let Some(realm) = &connection.realm else { return Vec::new() };
    connection.filters.topics().into_iter().map(|topic| (realm.clone(), topic)).collect()
}

fn expiry(connection: &Connection) -> AttributeValue {
    number(connection.connected_at.as_secs() + CONNECTION_SECS)
}
