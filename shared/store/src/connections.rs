//! Sockets and what they are subscribed to.
//!
//! A subscription stands under each of its topics, so a broadcast reads the subscribers of an event and
//! nobody else. Each realm has a stamp that moves with every subscription in it: whoever remembers
//! subscribers reads the stamp first, and reads the subscribers again when it has moved.

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
    /// Moves with every change; whoever changes it names the one that they read. 0 before it is stored.
    #[serde(default)]
    pub version: u64,
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
    /// When its socket began to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// A worker's token generation: from the next one on it may not be told anything more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is stored.
    Yes,
    /// The socket was changed by somebody else, or is gone: read it again.
    Transition,
}

impl Store {
    /// A socket, as of now.
    pub async fn connection(&self, id: &ConnectionId) -> Result<Option<Connection>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::connection(id).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(value).transpose()
    }

    /// Replaces what a socket is subscribed to. IdempotencyRecord this returns, every later event that matches finds it.
    ///
    /// The stamp moves after the subscriptions and not with them: it is one item for a whole realm, and
    /// transactions that share an item fail each other. Whoever reads the stamp before it moves may miss the new
    /// subscription, which is not confirmed yet.
    pub async fn resubscribe(&self, before: &Connection, after: &mut Connection) -> Result<Changed, Error> {
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
            Err(SdkError::ServiceError(refused)) if is_moved(refused.err()) => {
                return Ok(Changed::Transition);
            }
            Err(error) => return Err(Error::from_table(error)),
        }
        for realm in [&before.realm, &after.realm].into_iter().flatten().collect::<BTreeSet<_>>() {
            self.move_stamp(realm).await?;
        }
        Ok(Changed::Yes)
    }

    /// Forgets a socket and its subscriptions. Forgetting one that is not there does nothing.
    pub async fn drop_connection(&self, id: &ConnectionId) -> Result<(), Error> {
        let delete = self.client.delete_item().table_name(&self.table);
        let delete = delete.set_key(Some(keys::connection(id).attributes().into()));
        let gone = delete.return_values(ReturnValue::AllOld).send().await.map_err(Error::from_table)?;
        let Some(item) = gone.attributes else { return Ok(()) };
        let connection: Connection = value(item)?;
        let Some(realm) = &connection.realm else { return Ok(()) };
        self.drop_subscriptions(realm, &connection.filters.topics(), id).await
    }

    /// Forgets a socket unless it is known who is there; `false` if it is.
    pub async fn drop_if_unknown(&self, id: &ConnectionId) -> Result<bool, Error> {
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(keys::connection(id).attributes().into()))
            .condition_expression("attribute_not_exists(#principal)")
            .expression_attribute_names("#principal", "principal");
        match delete.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                Ok(false)
            }
            Err(error) => Err(Error::from_table(error)),
        }
    }

    /// Forgets subscriptions that turned out to lead nowhere, whatever is known of their socket.
    pub async fn drop_subscriptions(
        &self,
        realm: &str,
        topics: &[String],
        id: &ConnectionId,
    ) -> Result<(), Error> {
        let deletes = topics.iter().map(|topic| self.delete(keys::subscription(realm, topic, id)));
        let deletes = deletes.collect::<Result<Vec<_>, _>>()?;
        let transaction = self.client.transact_write_items().set_transact_items(Some(deletes));
        transaction.send().await.map_err(Error::from_table)?;
        self.move_stamp(realm).await
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

    /// The stamps of some realms, as of now; 0 where nobody ever subscribed.
    pub async fn subscription_versions(&self, realms: &[&str]) -> Result<HashMap<String, u64>, Error> {
        let mut stamps: HashMap<String, u64> = realms.iter().map(|realm| ((*realm).to_owned(), 0)).collect();
        for some in realms.chunks(MAX_BATCH_GET) {
            let wanted =
                some.iter().map(|realm| keys::subscription_version(realm).attributes().into()).collect();
            for item in self.get_all(wanted).await? {
                stamps.insert(get_text(&item, "realm")?.to_owned(), get_number(&item, "stamp")?);
            }
        }
        Ok(stamps)
    }

    async fn move_stamp(&self, realm: &str) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(keys::subscription_version(realm).attributes().into()))
            .update_expression("ADD #stamp :one SET #realm = :realm, #kind = :kind, #v = :one")
            .expression_attribute_names("#stamp", "stamp")
            .expression_attribute_names("#realm", "realm")
            .expression_attribute_names("#kind", "kind")
            .expression_attribute_names("#v", "v")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":realm", text(realm))
            .expression_attribute_values(":kind", text("stamp"));
        update.send().await.map_err(Error::from_table)?;
        Ok(())
    }

    /// The socket itself, if it is still the one that was read. One that is gone stays gone.
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

fn is_moved(error: &TransactWriteItemsError) -> bool {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { return false };
    let mut codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    codes.any(|code| matches!(code, "ConditionalCheckFailed" | "TransactionConflict"))
}

/// Where a socket's subscriptions stand. One that has not said who it is has none.
fn topics(connection: &Connection) -> Vec<(String, String)> {
    let Some(realm) = &connection.realm else { return Vec::new() };
    connection.filters.topics().into_iter().map(|topic| (realm.clone(), topic)).collect()
}

fn expiry(connection: &Connection) -> AttributeValue {
    number(connection.connected_at.as_secs() + CONNECTION_SECS)
}
