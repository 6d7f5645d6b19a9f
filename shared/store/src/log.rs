//! The log of a sandbox: appending a batch, reading bodies. Reading segments is the same for every log: see
//! [`crate::segments`].

use crate::error::Error;
use crate::items::{Item, attributes, get_text, number, start, text, value};
use crate::ledger::{self, Change};
use crate::limits::{IDEMPOTENCY_SECS, MAX_PACKED_BYTES, MAX_TRANSACTION_BYTES};
use crate::pack::{Packed, unpack};
use crate::sandboxes::{activity_text, sandbox_of};
use crate::segments::{Entry, LogOf, PIECE, Written, entry, json, news_item, written};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use domain::ingest::{Batch, NewEvent};
use domain::{Entity, EventId, JsonObject, Message, Sandbox, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

/// A batch on its way into the log.
#[derive(Debug)]
pub struct Append<'a> {
    /// The head that was read.
    pub before: &'a Sandbox,
    /// The head that the rules made of it.
    pub after: &'a Sandbox,
    /// Sequence number of the first log event.
    pub first_seq: u64,
    /// The events.
    pub batch: &'a Batch,
    /// When it came in.
    pub now: Timestamp,
    /// An `Idempotency-Key` that must not have been used.
    pub once: Option<&'a IdempotencyRecord>,
    /// What the events tell of messages.
    pub changes: &'a [Change],
}

/// The memory of an `Idempotency-Key`: enough to give the first answer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// The key.
    pub key: String,
    /// Fingerprint of what came with it.
    pub digest: String,
    /// The answer.
    pub event_id: EventId,
    /// The answer.
    pub seq: Option<u64>,
    /// The answer.
    pub received_at: Timestamp,
}

/// What became of an append.
#[derive(Debug)]
pub enum Appended {
    /// It is stored, all of it; this is the head now.
    Stored(Box<Sandbox>),
    /// Somebody else wrote first: this is the head now (`None`: read it again). Nothing was stored.
    Conflict(Option<Box<Sandbox>>),
    /// The key was used before. Nothing was stored.
    KeyUsed(IdempotencyRecord),
    /// The message was sent before. Nothing was stored.
    MessageKnown(Box<Message>),
    /// Even compressed it is more than one transaction can carry. Nothing was stored.
    TooLarge,
}

impl Store {
    /// Stores a batch with the head that tells of it, in one transaction.
    ///
    /// **Invariant:** the head moves if and only if the segment is there, so the log has no gap.
    pub async fn append(&self, append: Append<'_>) -> Result<Appended, Error> {
        let id = &append.before.id;
        let entity = Entity::Sandbox(id.clone());
        let log = LogOf { entity: &entity, org: &append.before.org, generation: append.before.generation };
        let events = written(log, append.first_seq, append.now, &append.batch.events)?;
        let Some(Written { mut items, segments }) = events else { return Ok(Appended::TooLarge) };
        let mut after = append.after.clone();
        after.segments += segments;
        items.extend(pulse_items(id, log, append.now, &append.batch.ephemeral)?);
        if items.iter().map(size).sum::<usize>() > MAX_TRANSACTION_BYTES {
            return Ok(Appended::TooLarge);
        }
        let mut writes = vec![self.head_update(append.before, &after)?];
        if let Some(once) = append.once {
            let mut item = start(keys::idempotency(id, &once.key), "once");
            item.extend(attributes(once)?);
            item.insert(keys::TTL.into(), number(append.now.as_secs() + IDEMPOTENCY_SECS));
            writes.push(self.put(item, Fresh::Required)?);
        }
        for change in append.changes {
            writes.extend(self.change_writes(id, change)?);
        }
        for item in items {
            writes.push(self.put(item, Fresh::Unchecked)?);
        }
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(Appended::Stored(Box::new(after))),
            Err(error) => refused(error),
        }
    }

    /// Sets what an ingest changes, if the head is still the one that was read. Attributes that this code does not
    /// know, written by a newer deploy, stay as they are.
    pub(crate) fn head_update(&self, before: &Sandbox, after: &Sandbox) -> Result<TransactWriteItem, Error> {
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
        // One that has not changed may be a word that this code does not know.
        if after.status != before.status {
            set.push_str(", #status = :status");
            update = update
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":status", text(after.status.as_str()));
        }
        if after.generation != before.generation {
            set.push_str(", #generation = :generation");
            update = update
                .expression_attribute_names("#generation", "generation")
                .expression_attribute_values(":generation", number(after.generation));
        }
        let update = update.update_expression(set).build();
        let update = update.map_err(|e| Error::broken("updating a head", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    pub(crate) fn put(&self, item: Item, fresh: Fresh) -> Result<TransactWriteItem, Error> {
        let mut put = Put::builder().table_name(&self.table).set_item(Some(item));
        if fresh == Fresh::Required {
            put = put
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", keys::PK)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        }
        let put = put.build().map_err(|e| Error::broken("putting an item", e))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// The full data of an event that is stored apart.
    pub async fn body(&self, id: &SandboxId, seq: u64) -> Result<Option<JsonObject>, Error> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut from = None;
        // A query answers with at most 1 MB, a body may have more.
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :prefix)")
                .expression_attribute_names("#pk", keys::PK)
                .expression_attribute_names("#sk", keys::SK)
                .expression_attribute_values(":pk", text(keys::sandbox(id).pk))
                .expression_attribute_values(":prefix", text(keys::body_prefix(seq)))
                .consistent_read(true)
                .set_exclusive_start_key(from);
            let page = query.send().await.map_err(Error::from_table)?;
            for item in page.items.unwrap_or_default() {
                match item.get(PIECE) {
                    Some(AttributeValue::B(piece)) => bytes.extend_from_slice(piece.as_ref()),
                    _ => return Err(Error::missing("a body piece without content")),
                }
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = unpack(&bytes)?;
        serde_json::from_str(&text).map(Some).map_err(|e| Error::broken("reading a body", e))
    }
}

#[derive(PartialEq)]
pub(crate) enum Fresh {
    /// Nothing may stand there.
    Required,
    /// The head's condition already says that nothing does, or it may be overwritten.
    Unchecked,
}

fn pulse_items(
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
            let packed = Packed::new(json(&left[..count])?);
            if packed.len() <= MAX_PACKED_BYTES || count == 1 {
                break packed;
            }
            count = count.div_ceil(2);
        };
        items.push(news_item(keys::pulse(id, items.len()), "pulse", log, now, packed));
        left = &left[count..];
    }
    Ok(items)
}

fn refused(error: SdkError<TransactWriteItemsError>) -> Result<Appended, Error> {
    let SdkError::ServiceError(service) = &error else { return Err(Error::from_table(error)) };
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err() else {
        return Err(Error::from_table(error));
    };
    let reasons = cancelled.cancellation_reasons();
    let failed =
        |index: usize| reasons.get(index).filter(|reason| reason.code() == Some("ConditionalCheckFailed"));
    // What was used before comes first: whoever used it has moved the head as well.
    if let Some(Some(item)) = failed(1).map(|reason| reason.item.clone()) {
        return match get_text(&item, "kind")? {
            ledger::MESSAGE => Ok(Appended::MessageKnown(Box::new(value(item)?))),
            _ => Ok(Appended::KeyUsed(value(item)?)),
        };
    }
    if let Some(reason) = failed(0) {
        let head = reason.item.clone().filter(|item| !item.is_empty()).map(sandbox_of).transpose()?;
        return Ok(Appended::Conflict(head.map(Box::new)));
    }
    // Another transaction touches the same item right now.
    if reasons.iter().any(|reason| reason.code() == Some("TransactionConflict")) {
        return Ok(Appended::Conflict(None));
    }
    if reasons.iter().any(|reason| reason.code() == Some("ValidationError")) {
        return Err(Error::broken("appending to the log", error));
    }
    Err(Error::from_table(error))
}

/// About what an item counts for: names are short, and the content is what grows.
pub(crate) fn size(item: &Item) -> usize {
    item.values()
        .map(|value| match value {
            AttributeValue::S(text) => text.len(),
            AttributeValue::B(bytes) => bytes.as_ref().len(),
            _ => 16,
        })
        .sum()
}
