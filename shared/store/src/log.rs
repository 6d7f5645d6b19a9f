//! Appending to the log of a sandbox. [`crate::segments`] reads the logs of all entities; `crate::bodies` stores large data.

use crate::compression::Packed;
use crate::error::Error;
use crate::items::{Item, attributes, get_text, number, start, text, value};
use crate::ledger::{self, Change};
use crate::limits::{IDEMPOTENCY_SECS, MAX_PACKED_BYTES, MAX_TRANSACTION_BYTES};
use crate::sandboxes::{activity_text, sandbox_of};
use crate::segments::{Entry, LogItems, LogOf, encode, entry, event_item, log_items};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use domain::ingest::{Batch, NewEvent};
use domain::{Entity, EventId, Message, Sandbox, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

/// A batch to append to the log.
#[derive(Debug)]
pub struct Append<'a> {
    /// The sandbox that was read.
    pub before: &'a Sandbox,
    /// The sandbox after the batch.
    pub after: &'a Sandbox,
    /// Sequence number of the first log event.
    pub first_seq: u64,
    pub batch: &'a Batch,
    pub now: Timestamp,
    /// An `Idempotency-Key` that must not have been used before.
    pub idempotency: Option<&'a IdempotencyRecord>,
    /// Changes to messages that the events describe.
    pub changes: &'a [Change],
}

/// The record of a used `Idempotency-Key`: what is needed to return the first response again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    pub key: String,
    /// Digest of the request.
    pub digest: String,
    pub event_id: EventId,
    pub seq: Option<u64>,
    pub received_at: Timestamp,
}

#[derive(Debug)]
pub enum Appended {
    /// All of it is stored. Holds the new state of the sandbox.
    Stored(Box<Sandbox>),
    /// Another writer committed first. Holds the current sandbox, or `None` if it must be read again. Nothing was
    /// stored.
    Conflict(Option<Box<Sandbox>>),
    /// The key was used before. Nothing was stored.
    KeyUsed(IdempotencyRecord),
    /// The message was sent before. Nothing was stored.
    MessageExists(Box<Message>),
    /// The batch exceeds the size of a transaction even when it is compressed. Nothing was stored.
    TooLarge,
}

impl Store {
    /// Stores a batch and the new state of the sandbox in one transaction. Bodies that do not fit into it are written
    /// before it (`crate::bodies`).
    ///
    /// **Invariant:** the sandbox's `seq` advances if and only if the segment is stored, so the log has no gap.
    pub async fn append(&self, append: Append<'_>) -> Result<Appended, Error> {
        let id = &append.before.id;
        let entity = Entity::Sandbox(id.clone());
        let log = LogOf { entity: &entity, org: &append.before.org, generation: append.after.generation };
        let events = log_items(log, append.first_seq, append.now, &append.batch.events)?;
        let Some(mut written) = events else { return Ok(Appended::TooLarge) };
        let mut after = append.after.clone();
        written.continue_log_of(&mut after)?;
        let LogItems { segments, bodies } = written;
        let mut items = segments;
        items.extend(ephemeral_items(id, log, append.now, &append.batch.ephemeral)?);
        let inline_bytes = items.iter().map(size).sum::<usize>();
        let body_bytes = bodies.iter().map(|body| body.bytes.len()).sum::<usize>();
        if inline_bytes > MAX_TRANSACTION_BYTES {
            return Ok(Appended::TooLarge);
        }
        for body in &bodies {
            if inline_bytes + body_bytes <= MAX_TRANSACTION_BYTES {
                items.extend(body.items(id));
            } else {
                items.push(self.detach(id, body).await?);
            }
        }
        let mut writes = vec![self.sandbox_update(append.before, &after)?];
        if let Some(record) = append.idempotency {
            let mut item = start(keys::idempotency(id, &record.key), "idempotency");
            item.extend(attributes(record)?);
            item.insert(keys::TTL.into(), number(append.now.as_secs() + IDEMPOTENCY_SECS));
            writes.push(self.put(item, Existing::Reject)?);
        }
        for change in append.changes {
            writes.extend(self.change_writes(id, change)?);
        }
        for item in items {
            writes.push(self.put(item, Existing::Overwrite)?);
        }
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(Appended::Stored(Box::new(after))),
            Err(error) => append_error(error),
        }
    }

    /// Sets the attributes that an ingest changes, if the stored version is still that of `before`. Attributes that
    /// only a newer deploy knows stay as they are.
    pub(crate) fn sandbox_update(
        &self,
        before: &Sandbox,
        after: &Sandbox,
    ) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::sandbox(&before.id).attributes().into()))
            .condition_expression("#version = :before")
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#seq", "seq")
            .expression_attribute_names("#segments", "segments")
            .expression_attribute_names("#activity", "activity")
            .expression_attribute_values(":before", number(before.version))
            .expression_attribute_values(":after", number(after.version))
            .expression_attribute_values(":seq", number(after.seq))
            .expression_attribute_values(":segments", number(after.segments))
            .expression_attribute_values(":activity", text(activity_text(after)?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let mut set =
            "SET #version = :after, #seq = :seq, #segments = :segments, #activity = :activity".to_owned();
        if let Some(hash) = after.log_hash {
            set.push_str(", #log_hash = :log_hash");
            update = update
                .expression_attribute_names("#log_hash", "log_hash")
                .expression_attribute_values(":log_hash", text(hash.to_string()));
        }
        // A status that has not changed may be one that only a newer deploy knows.
        if after.status() != before.status() {
            set.push_str(", #status = :status");
            update = update
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":status", text(after.status().as_str()));
        }
        if after.generation != before.generation {
            set.push_str(", #generation = :generation");
            update = update
                .expression_attribute_names("#generation", "generation")
                .expression_attribute_values(":generation", number(after.generation));
        }
        let update = update.update_expression(set).build();
        let update = update.map_err(|e| Error::broken("updating a sandbox", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    pub(crate) fn put(&self, item: Item, existing: Existing) -> Result<TransactWriteItem, Error> {
        let mut put = Put::builder().table_name(&self.table).set_item(Some(item));
        if existing == Existing::Reject {
            put = put
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", keys::PK)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        }
        let put = put.build().map_err(|e| Error::broken("putting an item", e))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }
}

/// What a put does if there is an item with the same key.
#[derive(PartialEq)]
pub(crate) enum Existing {
    Reject,
    /// Another condition of the transaction already excludes it, or overwriting is intended.
    Overwrite,
}

fn ephemeral_items(
    id: &SandboxId,
    log: LogOf<'_>,
    now: Timestamp,
    ephemeral: &[NewEvent],
) -> Result<Vec<Item>, Error> {
    let entries: Vec<Entry> =
        ephemeral.iter().map(|event| entry(event).map(|(entry, _)| entry)).collect::<Result<_, _>>()?;
    let (mut left, mut items) = (entries.as_slice(), Vec::new());
    while !left.is_empty() {
        let mut count = left.len();
        let packed = loop {
            let packed = Packed::new(encode(&left[..count])?);
            if packed.len() <= MAX_PACKED_BYTES || count == 1 {
                break packed;
            }
            count = count.div_ceil(2);
        };
        items.push(event_item(keys::ephemeral(id, items.len()), "ephemeral", log, now, packed));
        left = &left[count..];
    }
    Ok(items)
}

fn append_error(error: SdkError<TransactWriteItemsError>) -> Result<Appended, Error> {
    let SdkError::ServiceError(service) = &error else { return Err(Error::from_table(error)) };
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err() else {
        return Err(Error::from_table(error));
    };
    let reasons = cancelled.cancellation_reasons();
    let failed =
        |index: usize| reasons.get(index).filter(|reason| reason.code() == Some("ConditionalCheckFailed"));
    // Checked first: the request that used the key or message id has changed the sandbox as well.
    if let Some(Some(item)) = failed(1).map(|reason| reason.item.clone()) {
        return match get_text(&item, "kind")? {
            ledger::MESSAGE => Ok(Appended::MessageExists(Box::new(value(item)?))),
            _ => Ok(Appended::KeyUsed(value(item)?)),
        };
    }
    if let Some(reason) = failed(0) {
        let sandbox = reason.item.clone().filter(|item| !item.is_empty()).map(sandbox_of).transpose()?;
        return Ok(Appended::Conflict(sandbox.map(Box::new)));
    }
    // Another transaction is writing the same item.
    if reasons.iter().any(|reason| reason.code() == Some("TransactionConflict")) {
        return Ok(Appended::Conflict(None));
    }
    if reasons.iter().any(|reason| reason.code() == Some("ValidationError")) {
        return Err(Error::broken("appending to the log", error));
    }
    Err(Error::from_table(error))
}

/// Approximate size of an item. Attribute names are short, so only values count.
pub(crate) fn size(item: &Item) -> usize {
    item.values()
        .map(|value| match value {
            AttributeValue::S(text) => text.len(),
            AttributeValue::B(bytes) => bytes.as_ref().len(),
            _ => 16,
        })
        .sum()
}
