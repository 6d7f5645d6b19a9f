//! The log of a sandbox: appending a batch, reading segments and bodies.

use crate::error::Error;
use crate::heads::{activity_text, head_of};
use crate::items::{Item, attributes, get_number, get_text, number, start, text, value};
use crate::ledger::{self, Change};
use crate::limits::{MAX_INLINE_BYTES, MAX_PACKED_BYTES, MAX_TRANSACTION_BYTES, ONCE_SECS};
use crate::pack::{Packed, compress, unpack};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use domain::event::BodyReference;
use domain::ingest::{Batch, NewEvent};
use domain::{Event, EventId, EventType, Head, JsonObject, Message, SandboxId, Source, Timestamp, abridge};
use serde::{Deserialize, Serialize};

/// A batch on its way into the log.
#[derive(Debug)]
pub struct Append<'a> {
    /// The head that was read.
    pub before: &'a Head,
    /// The head that the rules made of it.
    pub after: &'a Head,
    /// Sequence number of the first log event.
    pub first_seq: u64,
    /// The events.
    pub batch: &'a Batch,
    /// When it came in.
    pub now: Timestamp,
    /// An `Idempotency-Key` that must not have been used.
    pub once: Option<&'a Once>,
    /// What the events tell of messages.
    pub changes: &'a [Change],
}

/// The memory of an `Idempotency-Key`: enough to give the first answer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
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
    Stored(Box<Head>),
    /// Somebody else wrote first: this is the head now (`None`: read it again). Nothing was stored.
    HeadMoved(Option<Box<Head>>),
    /// The key was used before. Nothing was stored.
    OnceUsed(Once),
    /// The message was sent before. Nothing was stored.
    MessageKnown(Box<Message>),
    /// Even compressed it is more than one transaction can carry. Nothing was stored.
    TooLarge,
}

/// A stored piece of the log, still packed: a small one may hold a lot.
#[derive(Debug, Clone)]
pub struct Segment(Item);

impl Segment {
    /// Where it starts.
    pub fn first_seq(&self) -> Result<u64, Error> {
        get_number(&self.0, "first_seq")
    }

    /// Its events, oldest first.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        events_of(&self.0, Some(self.first_seq()?))
    }
}

/// An event as a segment holds it: its sequence number is its place, its time the segment's.
#[derive(Serialize, Deserialize)]
struct Entry {
    id: EventId,
    #[serde(rename = "type")]
    event_type: EventType,
    source: Source,
    data: JsonObject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    emitted_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<BodyReference>,
}

impl Store {
    /// Stores a batch with the head that tells of it, in one transaction.
    ///
    /// **Invariant:** the head moves if and only if the segment is there, so the log has no gap.
    pub async fn append(&self, append: Append<'_>) -> Result<Appended, Error> {
        let id = &append.before.id;
        let mut items: Vec<Item> = Vec::new();
        let mut entries = Vec::with_capacity(append.batch.events.len());
        for (event, seq) in append.batch.events.iter().zip(append.first_seq..) {
            let (entry, body) = entry(event)?;
            entries.push(entry);
            items.extend(body.into_iter().flat_map(|body| body_items(id, seq, &body)));
        }
        let segments = segment_items(append.before, append.first_seq, append.now, &entries)?;
        let mut after = append.after.clone();
        after.segments += segments.len() as u64;
        items.extend(segments);
        items.extend(pulse_items(append.before, append.now, &append.batch.fleeting)?);
        if items.iter().map(size).sum::<usize>() > MAX_TRANSACTION_BYTES {
            return Ok(Appended::TooLarge);
        }
        let mut writes = vec![self.head_update(append.before, &after)?];
        if let Some(once) = append.once {
            let mut item = start(keys::once(id, &once.key), "once");
            item.extend(attributes(once)?);
            item.insert(keys::TTL.into(), number(append.now.as_secs() + ONCE_SECS));
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
    fn head_update(&self, before: &Head, after: &Head) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::head(&before.id).attributes().into()))
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

    /// Up to `limit` segments that start at `from` or later, oldest first.
    pub async fn segments_from(
        &self,
        id: &SandboxId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Segment>, Error> {
        self.segments(id, (from, u64::MAX), true, limit).await
    }

    /// Up to `limit` segments that start at `to` or earlier, newest first.
    pub async fn segments_to(&self, id: &SandboxId, to: u64, limit: usize) -> Result<Vec<Segment>, Error> {
        self.segments(id, (0, to), false, limit).await
    }

    async fn segments(
        &self,
        id: &SandboxId,
        (from, to): (u64, u64),
        forward: bool,
        limit: usize,
    ) -> Result<Vec<Segment>, Error> {
        // The key must sort after every segment.
        let to = to.min(keys::MAX_NUMBER);
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::head(id).pk))
            .expression_attribute_values(":from", text(keys::segment(id, from).sk))
            .expression_attribute_values(":to", text(keys::segment(id, to).sk))
            .consistent_read(true)
            .scan_index_forward(forward)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        Ok(page.items.unwrap_or_default().into_iter().map(Segment).collect())
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
                .expression_attribute_values(":pk", text(keys::head(id).pk))
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

const PIECE: &str = "piece";

#[derive(PartialEq)]
pub(crate) enum Fresh {
    /// Nothing may stand there.
    Required,
    /// The head's condition already says that nothing does, or it may be overwritten.
    Unchecked,
}

/// An event as it is logged, and its full data if that stands apart.
fn entry(event: &NewEvent) -> Result<(Entry, Option<Vec<u8>>), Error> {
    let mut entry = Entry {
        id: event.id.clone(),
        event_type: event.event_type.clone(),
        source: event.source,
        data: event.data.clone(),
        emitted_at: event.emitted_at,
        body: None,
    };
    let size = event.data.text().len();
    if size <= MAX_INLINE_BYTES {
        return Ok((entry, None));
    }
    let cut = abridge::abridge(&event.data, MAX_INLINE_BYTES);
    entry.data = cut.data;
    entry.body = Some(BodyReference { size_bytes: size as u64, omitted: cut.omitted });
    Ok((entry, Some(compress(event.data.text())?)))
}

fn body_items(id: &SandboxId, seq: u64, body: &[u8]) -> Vec<Item> {
    let pieces = body.chunks(MAX_PACKED_BYTES).enumerate();
    pieces
        .map(|(index, piece)| {
            let mut item = start(keys::body(id, seq, index), "body");
            item.insert(PIECE.into(), AttributeValue::B(Blob::new(piece)));
            item
        })
        .collect()
}

/// One segment, or several where the events do not fit one item: each half is tried on its own.
fn segment_items(head: &Head, first_seq: u64, now: Timestamp, entries: &[Entry]) -> Result<Vec<Item>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let packed = Packed::new(json(entries)?);
    if packed.len() > MAX_PACKED_BYTES && entries.len() > 1 {
        let (left, right) = entries.split_at(entries.len() / 2);
        let mut items = segment_items(head, first_seq, now, left)?;
        items.extend(segment_items(head, first_seq + left.len() as u64, now, right)?);
        return Ok(items);
    }
    let mut item = news_item(keys::segment(&head.id, first_seq), "log", head, now, packed);
    item.insert("first_seq".into(), number(first_seq));
    item.insert("count".into(), number(entries.len()));
    if entries.iter().any(|entry| entry.event_type.is_lifecycle()) {
        let (name, value) = keys::LIFECYCLE;
        item.insert(name.into(), text(value));
    }
    Ok(vec![item])
}

fn pulse_items(head: &Head, now: Timestamp, fleeting: &[NewEvent]) -> Result<Vec<Item>, Error> {
    let entries: Vec<Entry> =
        fleeting.iter().map(|event| entry(event).map(|(entry, _)| entry)).collect::<Result<_, _>>()?;
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
        items.push(news_item(keys::pulse(&head.id, items.len()), "pulse", head, now, packed));
        left = &left[count..];
    }
    Ok(items)
}

fn news_item(key: keys::Key, kind: &str, head: &Head, now: Timestamp, packed: Packed) -> Item {
    let mut item = start(key, kind);
    item.insert("org".into(), text(head.org.as_str()));
    item.insert("received_at".into(), text(now.to_string()));
    item.insert("generation".into(), number(head.generation));
    item.extend([packed.attribute()]);
    item
}

fn json(entries: &[Entry]) -> Result<String, Error> {
    serde_json::to_string(entries).map_err(|e| Error::broken("writing a segment", e))
}

/// The events of a segment or a pulse.
pub(crate) fn events_of(item: &Item, first_seq: Option<u64>) -> Result<Vec<Event>, Error> {
    let received_at = Timestamp::parse(get_text(item, "received_at")?)
        .ok_or_else(|| Error::missing("a segment with a wrong time"))?;
    let packed = Packed::text_of(item)?;
    let entries: Vec<Entry> =
        serde_json::from_str(&packed).map_err(|e| Error::broken("reading a segment", e))?;
    let events = entries.into_iter().enumerate().map(|(index, entry)| Event {
        seq: first_seq.map(|first| first + index as u64),
        id: entry.id,
        event_type: entry.event_type,
        source: entry.source,
        data: entry.data,
        created_at: received_at,
        emitted_at: entry.emitted_at,
        body: entry.body,
    });
    Ok(events.collect())
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
            _ => Ok(Appended::OnceUsed(value(item)?)),
        };
    }
    if let Some(reason) = failed(0) {
        let head = reason.item.clone().filter(|item| !item.is_empty()).map(head_of).transpose()?;
        return Ok(Appended::HeadMoved(head.map(Box::new)));
    }
    // Another transaction touches the same item right now.
    if reasons.iter().any(|reason| reason.code() == Some("TransactionConflict")) {
        return Ok(Appended::HeadMoved(None));
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
