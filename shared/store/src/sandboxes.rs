//! Sandbox heads.

use crate::error::Error;
use crate::items::{Item, attributes, number, start, text, value};
use crate::log::Fresh;
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{KeysAndAttributes, ReturnValue};
use domain::attempt::Assignment;
use domain::sandbox::Status;
use domain::{Entity, OrgId, Sandbox, SandboxId, SessionId, Timestamp, entity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whose sandboxes to list.
#[derive(Debug, Clone)]
pub enum Whose {
    /// One org's.
    Org(OrgId),
    /// Everybody's.
    All,
}

/// A page of a list.
#[derive(Debug)]
pub struct SandboxPage {
    /// Newest first.
    pub heads: Vec<Sandbox>,
    /// Where the next page starts, if there is one.
    pub next: Option<String>,
}

impl Store {
    /// Stores a new head; `false` if the sandbox exists.
    pub async fn create_sandbox(&self, head: &Sandbox) -> Result<bool, Error> {
        let mut item = start(keys::sandbox(&head.id), "sandbox");
        item.extend(attributes(&SandboxItem::of(head)?)?);
        let mut listing = start(keys::listing(&head.id), "listing");
        let entity = Entity::Sandbox(head.id.clone());
        listing.extend(keys::index_attributes(&entity, &head.org, head.created_at));
        let writes = vec![self.put(item, Fresh::Required)?, self.put(listing, Fresh::Unchecked)?];
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refused)) if exists(refused.err()) => Ok(false),
            Err(error) => Err(Error::from_table(error)),
        }
    }

    /// The head of a sandbox, as of now.
    pub async fn sandbox(&self, id: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::sandbox(id).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(sandbox_of).transpose()
    }

    /// Moves a sandbox's token generation on: worker tokens made before are refused from now on.
    pub async fn next_generation(&self, id: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let update = self.client.update_item().table_name(&self.table);
        let update = update
            .set_key(Some(keys::sandbox(id).attributes().into()))
            .update_expression("ADD #generation :one, #version :one")
            .condition_expression("attribute_exists(#pk)")
            .expression_attribute_names("#generation", "generation")
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(done) => done.attributes.map(sandbox_of).transpose(),
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                Ok(None)
            }
            Err(error) => Err(Error::from_table(error)),
        }
    }

    /// Sandboxes, newest first.
    pub async fn sandboxes_of(
        &self,
        whose: &Whose,
        from: Option<String>,
        limit: usize,
    ) -> Result<SandboxPage, Error> {
        let (order, next) = self.index_page(entity::SANDBOX, whose, from, limit).await?;
        let ids: Vec<SandboxId> = order.iter().filter_map(|id| SandboxId::parse(id).ok()).collect();
        let mut heads = self.heads(ids.iter().cloned()).await?;
        Ok(SandboxPage { heads: ids.iter().filter_map(|id| heads.remove(id)).collect(), next })
    }

    /// Ids of what somebody has of a kind, newest first, and where the next page starts.
    pub(crate) async fn index_page(
        &self,
        kind: &str,
        whose: &Whose,
        from: Option<String>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        let (index, partition) = match whose {
            Whose::Org(org) => (keys::BY_ORG, keys::org_partition(kind, org)),
            Whose::All => (keys::BY_AGE, keys::age_partition(kind).to_owned()),
        };
        let mut query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(index.name)
            .scan_index_forward(false)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .expression_attribute_names("#pk", index.pk)
            .expression_attribute_values(":pk", text(partition));
        query = match from {
            None => query.key_condition_expression("#pk = :pk"),
            Some(before) => query
                .key_condition_expression("#pk = :pk AND #sk < :before")
                .expression_attribute_names("#sk", index.sk)
                .expression_attribute_values(":before", text(before)),
        };
        let page = query.send().await.map_err(Error::from_table)?;
        let more = page.last_evaluated_key.is_some();
        let order: Vec<String> = page
            .items
            .unwrap_or_default()
            .iter()
            .map(|item| crate::items::get_text(item, index.sk).map(str::to_owned))
            .collect::<Result<_, _>>()?;
        let next = if more { order.last().cloned() } else { None };
        let ids = order.iter().filter_map(|sk| keys::id_in_index(sk)).map(str::to_owned);
        Ok((ids.collect(), next))
    }

    /// Heads by their ids, at most a hundred, as of now. In the order of their ids; those that are not
    /// there are left out.
    pub async fn sandboxes_by_id(&self, ids: &[SandboxId]) -> Result<Vec<Sandbox>, Error> {
        Ok(self.heads(ids.iter().cloned()).await?.into_values().collect())
    }

    async fn heads(
        &self,
        ids: impl Iterator<Item = SandboxId>,
    ) -> Result<BTreeMap<SandboxId, Sandbox>, Error> {
        let wanted: Vec<Item> = ids.map(|id| keys::sandbox(&id).attributes().into()).collect();
        let mut heads = BTreeMap::new();
        for item in self.get_all(wanted).await? {
            let head = sandbox_of(item)?;
            heads.insert(head.id.clone(), head);
        }
        Ok(heads)
    }

    /// Up to a hundred items by their keys, as of now.
    pub(crate) async fn get_all(&self, mut wanted: Vec<Item>) -> Result<Vec<Item>, Error> {
        let mut items = Vec::with_capacity(wanted.len());
        if wanted.is_empty() {
            return Ok(items);
        }
        // DynamoDB may leave some for the next call, when the answer grows large or the table is busy.
        for _ in 0..MAX_ROUNDS {
            let keys = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(true).build();
            let keys = keys.map_err(|e| Error::broken("asking for items", e))?;
            let get = self.client.batch_get_item().request_items(&self.table, keys);
            let mut got = get.send().await.map_err(Error::from_table)?;
            items.extend(got.responses.take().unwrap_or_default().remove(&self.table).unwrap_or_default());
            let left = got.unprocessed_keys.take().unwrap_or_default().remove(&self.table);
            wanted = left.map(|left| left.keys).unwrap_or_default();
            if wanted.is_empty() {
                return Ok(items);
            }
        }
        Err(Error::Unavailable {
            what: "the table",
            code: "unprocessed keys".into(),
            source: "some items were left out".into(),
        })
    }
}

/// A head as it is stored. What every ingest rewrites is one attribute of text: as a tree of attributes it took a
/// third of the time of the whole write.
#[derive(Serialize, Deserialize)]
pub(crate) struct SandboxItem {
    id: SandboxId,
    org: OrgId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignment: Option<Assignment>,
    status: Status,
    created_at: Timestamp,
    generation: u32,
    version: u64,
    seq: u64,
    segments: u64,
    #[serde(default = "nothing_yet")]
    activity: String,
}

fn nothing_yet() -> String {
    "{}".to_owned()
}

impl SandboxItem {
    pub(crate) fn of(head: &Sandbox) -> Result<Self, Error> {
        Ok(Self {
            id: head.id.clone(),
            org: head.org.clone(),
            name: head.name.clone(),
            resumes: head.resumes.clone(),
            assignment: head.assignment.clone(),
            status: head.status,
            created_at: head.created_at,
            generation: head.generation,
            version: head.version,
            seq: head.seq,
            segments: head.segments,
            activity: activity_text(head)?,
        })
    }
}

pub(crate) fn sandbox_of(item: Item) -> Result<Sandbox, Error> {
    let item: SandboxItem = value(item)?;
    Ok(Sandbox {
        activity: serde_json::from_str(&item.activity).map_err(|e| Error::broken("reading a head", e))?,
        id: item.id,
        org: item.org,
        name: item.name,
        resumes: item.resumes,
        assignment: item.assignment,
        status: item.status,
        created_at: item.created_at,
        generation: item.generation,
        version: item.version,
        seq: item.seq,
        segments: item.segments,
    })
}

pub(crate) fn activity_text(head: &Sandbox) -> Result<String, Error> {
    serde_json::to_string(&head.activity).map_err(|e| Error::broken("writing a head", e))
}

fn exists(error: &TransactWriteItemsError) -> bool {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { return false };
    let head = cancelled.cancellation_reasons().first();
    head.is_some_and(|reason| reason.code() == Some("ConditionalCheckFailed"))
}

/// How often the rest of a batch is asked for.
const MAX_ROUNDS: usize = 8;
