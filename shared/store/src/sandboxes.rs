//! The state of sandboxes, and the shared reads by id and by index.

use crate::error::Error;
use crate::items::{Item, attributes, get_text, start, text, value};
use crate::log::Existing;
use crate::page::{Cursor, ListScope, Page};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use domain::attempt::Assignment;
use domain::message::Sender;
use domain::sandbox::Status;
use domain::{Entity, LogHash, OrgId, Sandbox, SandboxId, SessionId, Timestamp, entity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

impl Store {
    /// Stores a new sandbox. Returns `false` if the id is taken.
    pub async fn create_sandbox(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let mut item = start(keys::sandbox(&sandbox.id), "sandbox");
        item.extend(attributes(&SandboxItem::of(sandbox)?)?);
        let mut listing = start(keys::listing(&sandbox.id), "listing");
        let entity = Entity::Sandbox(sandbox.id.clone());
        listing.extend(keys::index_attributes(&entity, &sandbox.org, sandbox.created_at));
        let writes = vec![self.put(item, Existing::Reject)?, self.put(listing, Existing::Overwrite)?];
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refused)) if exists(refused.err()) => Ok(false),
            Err(error) => Err(Error::from_table(error)),
        }
    }

    /// A consistent read.
    pub async fn sandbox(&self, id: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::sandbox(id).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(sandbox_of).transpose()
    }

    /// Sandboxes, newest first.
    pub async fn sandboxes_of(
        &self,
        scope: &ListScope,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Sandbox>, Error> {
        let Page { items, next } = self.index_page(entity::SANDBOX, scope, after, limit).await?;
        let ids: Vec<SandboxId> = items.iter().filter_map(|id| SandboxId::parse(id).ok()).collect();
        let mut sandboxes = self.sandboxes_map(ids.iter().cloned()).await?;
        Ok(Page { items: ids.iter().filter_map(|id| sandboxes.remove(id)).collect(), next })
    }

    /// Ids of the entities of a kind, newest first.
    pub(crate) async fn index_page(
        &self,
        kind: &str,
        scope: &ListScope,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<String>, Error> {
        let (index, partition) = match scope {
            ListScope::Org(org) => (keys::BY_ORG, keys::org_partition(kind, org)),
            ListScope::All => (keys::BY_AGE, keys::age_partition(kind).to_owned()),
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
        query = match after {
            None => query.key_condition_expression("#pk = :pk"),
            Some(after) => query
                .key_condition_expression("#pk = :pk AND #sk < :after")
                .expression_attribute_names("#sk", index.sk)
                .expression_attribute_values(":after", text(after.as_str())),
        };
        let page = query.send().await.map_err(Error::from_table)?;
        let more = page.last_evaluated_key.is_some();
        let items = page.items.unwrap_or_default();
        let sort_keys: Vec<&str> =
            items.iter().map(|item| get_text(item, index.sk)).collect::<Result<_, _>>()?;
        let next = sort_keys.last().filter(|_| more).map(|last| Cursor::new(*last));
        let ids = sort_keys.iter().filter_map(|sk| keys::id_in_index(sk)).map(str::to_owned);
        Ok(Page { items: ids.collect(), next })
    }

    /// Up to 100 sandboxes by id, sorted by id. Ids that do not exist are left out.
    pub async fn sandboxes_by_id(&self, ids: &[SandboxId]) -> Result<Vec<Sandbox>, Error> {
        Ok(self.sandboxes_map(ids.iter().cloned()).await?.into_values().collect())
    }

    async fn sandboxes_map(
        &self,
        ids: impl Iterator<Item = SandboxId>,
    ) -> Result<BTreeMap<SandboxId, Sandbox>, Error> {
        let wanted: Vec<Item> = ids.map(|id| keys::sandbox(&id).attributes().into()).collect();
        let mut sandboxes = BTreeMap::new();
        for item in self.get_all(wanted).await? {
            let sandbox = sandbox_of(item)?;
            sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        Ok(sandboxes)
    }

    /// Up to 100 items by key, with consistent reads.
    pub(crate) async fn get_all(&self, mut wanted: Vec<Item>) -> Result<Vec<Item>, Error> {
        let mut items = Vec::with_capacity(wanted.len());
        if wanted.is_empty() {
            return Ok(items);
        }
        // DynamoDB leaves keys unprocessed when the response grows large or the table throttles.
        for _ in 0..MAX_BATCH_ATTEMPTS {
            let keys = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(true).build();
            let keys = keys.map_err(|e| Error::broken("reading items", e))?;
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
            source: "some keys stayed unprocessed".into(),
        })
    }
}

/// A sandbox as it is stored. `activity`, which every ingest rewrites, is one text attribute: as a map of attributes
/// it took a third of the time of the whole write.
#[derive(Serialize, Deserialize)]
pub(crate) struct SandboxItem {
    id: SandboxId,
    org: OrgId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registered_by: Option<Sender>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignment: Option<Assignment>,
    status: Status,
    created_at: Timestamp,
    generation: u32,
    version: u64,
    seq: u64,
    segments: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_hash: Option<LogHash>,
    #[serde(default = "empty_activity")]
    activity: String,
}

fn empty_activity() -> String {
    "{}".to_owned()
}

impl SandboxItem {
    pub(crate) fn of(sandbox: &Sandbox) -> Result<Self, Error> {
        Ok(Self {
            id: sandbox.id.clone(),
            org: sandbox.org.clone(),
            name: sandbox.name.clone(),
            resumes: sandbox.resumes.clone(),
            registered_by: sandbox.registered_by.clone(),
            assignment: sandbox.assignment.clone(),
            status: sandbox.status(),
            created_at: sandbox.created_at,
            generation: sandbox.generation,
            version: sandbox.version,
            seq: sandbox.seq,
            segments: sandbox.segments,
            log_hash: sandbox.log_hash,
            activity: activity_text(sandbox)?,
        })
    }
}

pub(crate) fn sandbox_of(item: Item) -> Result<Sandbox, Error> {
    let item: SandboxItem = value(item)?;
    let mut sandbox = Sandbox::restored(item.id, item.org, item.status, item.created_at);
    sandbox.name = item.name;
    sandbox.resumes = item.resumes;
    sandbox.registered_by = item.registered_by;
    sandbox.assignment = item.assignment;
    sandbox.generation = item.generation;
    sandbox.version = item.version;
    sandbox.seq = item.seq;
    sandbox.segments = item.segments;
    sandbox.log_hash = item.log_hash;
    sandbox.activity =
        serde_json::from_str(&item.activity).map_err(|e| Error::broken("reading a sandbox", e))?;
    Ok(sandbox)
}

pub(crate) fn activity_text(sandbox: &Sandbox) -> Result<String, Error> {
    serde_json::to_string(&sandbox.activity).map_err(|e| Error::broken("writing a sandbox", e))
}

fn exists(error: &TransactWriteItemsError) -> bool {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { return false };
    let sandbox_put = cancelled.cancellation_reasons().first();
    sandbox_put.is_some_and(|reason| reason.code() == Some("ConditionalCheckFailed"))
}

/// Maximum number of `BatchGetItem` calls to read all keys of a batch.
const MAX_BATCH_ATTEMPTS: usize = 8;
