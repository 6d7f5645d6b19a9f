//! Segments: the stored pieces of a log, whoever's it is.
//!
//! `written` makes the items of some events, for whichever transaction moves the head that tells of them.
//! Deliberately absent: that transaction. A sandbox's batch is [`Store::append`]'s.

use crate::error::Error;
use crate::items::{Item, get_number, get_text, number, start, text};
use crate::limits::{MAX_INLINE_BYTES, MAX_PACKED_BYTES};
use crate::pack::{Packed, compress};
use crate::{Store, keys};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::event::BodyReference;
use domain::ingest::NewEvent;
use domain::{
    Entity, Event, EventId, EventType, JsonObject, OrgId, Sandbox, SandboxId, Source, Timestamp, abridge,
};
use serde::{Deserialize, Serialize};

/// Where a log ends: what a reader must know of its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// Whose log.
    pub entity: Entity,
    /// Its last sequence number.
    pub seq: u64,
    /// How many segments it has.
    pub segments: u64,
}

impl From<&Sandbox> for LogEnd {
    fn from(head: &Sandbox) -> Self {
        Self { entity: Entity::Sandbox(head.id.clone()), seq: head.seq, segments: head.segments }
    }
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

impl Store {
    /// Where the log of something ends, and whose org's it is, as of now.
    pub async fn log_end(&self, entity: &Entity) -> Result<Option<(OrgId, LogEnd)>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::entity(entity).attributes().into())).send().await;
        let Some(item) = found.map_err(Error::from_table)?.item else { return Ok(None) };
        let org = OrgId::parse(get_text(&item, "org")?).map_err(|e| Error::broken("a head's org", e))?;
        let (seq, segments) = (get_number(&item, "seq")?, get_number(&item, "segments")?);
        Ok(Some((org, LogEnd { entity: entity.clone(), seq, segments })))
    }

    /// Up to `limit` segments that start at `from` or later, oldest first.
    pub async fn segments_from(
        &self,
        entity: &Entity,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Segment>, Error> {
        self.segments(entity, (from, u64::MAX), true, limit).await
    }

    /// Up to `limit` segments that start at `to` or earlier, newest first.
    pub async fn segments_to(&self, entity: &Entity, to: u64, limit: usize) -> Result<Vec<Segment>, Error> {
        self.segments(entity, (0, to), false, limit).await
    }

    async fn segments(
        &self,
        entity: &Entity,
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
            .expression_attribute_values(":pk", text(keys::partition(entity)))
            .expression_attribute_values(":from", text(keys::segment(entity, from).sk))
            .expression_attribute_values(":to", text(keys::segment(entity, to).sk))
            .consistent_read(true)
            .scan_index_forward(forward)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        Ok(page.items.unwrap_or_default().into_iter().map(Segment).collect())
    }
}

/// The log that a segment belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOf<'a> {
    /// Whose.
    pub(crate) entity: &'a Entity,
    /// Its org.
    pub(crate) org: &'a OrgId,
    /// A sandbox's token generation; 1 for whatever has no tokens of its own.
    pub(crate) generation: u32,
}

/// Some events of a log, ready for a transaction.
#[derive(Debug)]
pub(crate) struct Written {
    /// What to put: the segments, and what stands apart.
    pub(crate) items: Vec<Item>,
    /// How many of them are segments: so much grows the number on the head.
    pub(crate) segments: u64,
}

/// The items of these events, whose first has this sequence number; `None` if an event is too large for its log. Only
/// a sandbox's log has room beside it for data above [`MAX_INLINE_BYTES`]. What all the items of a transaction come to
/// is the caller's to check (`log::size`).
pub(crate) fn written(
    log: LogOf<'_>,
    first_seq: u64,
    now: Timestamp,
    events: &[NewEvent],
) -> Result<Option<Written>, Error> {
    let mut items: Vec<Item> = Vec::new();
    let mut entries = Vec::with_capacity(events.len());
    for (event, seq) in events.iter().zip(first_seq..) {
        let (entry, body) = entry(event)?;
        entries.push(entry);
        match (body, log.entity) {
            (None, _) => {}
            (Some(body), Entity::Sandbox(id)) => items.extend(body_items(id, seq, &body)),
            (Some(_), Entity::Task(_) | Entity::Ticket(_)) => return Ok(None),
        }
    }
    let segments = segment_items(log, first_seq, now, &entries)?;
    let count = segments.len() as u64;
    items.extend(segments);
    Ok(Some(Written { items, segments: count }))
}

/// An event as a segment holds it: its sequence number is its place, its time the segment's.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
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

/// An event as it is logged, and its full data if that stands apart.
pub(crate) fn entry(event: &NewEvent) -> Result<(Entry, Option<Vec<u8>>), Error> {
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

pub(crate) const PIECE: &str = "piece";

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
fn segment_items(
    log: LogOf<'_>,
    first_seq: u64,
    now: Timestamp,
    entries: &[Entry],
) -> Result<Vec<Item>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let packed = Packed::new(json(entries)?);
    if packed.len() > MAX_PACKED_BYTES && entries.len() > 1 {
        let (left, right) = entries.split_at(entries.len() / 2);
        let mut items = segment_items(log, first_seq, now, left)?;
        items.extend(segment_items(log, first_seq + left.len() as u64, now, right)?);
        return Ok(items);
    }
    let mut item = news_item(keys::segment(log.entity, first_seq), "log", log, now, packed);
    item.insert("first_seq".into(), number(first_seq));
    item.insert("count".into(), number(entries.len()));
    if entries.iter().any(|entry| entry.event_type.is_lifecycle()) {
        let (name, value) = keys::LIFECYCLE;
        item.insert(name.into(), text(value));
    }
    Ok(vec![item])
}

pub(crate) fn news_item(key: keys::Key, kind: &str, log: LogOf<'_>, now: Timestamp, packed: Packed) -> Item {
    let mut item = start(key, kind);
    item.insert("org".into(), text(log.org.as_str()));
    item.insert("received_at".into(), text(now.to_string()));
    item.insert("generation".into(), number(log.generation));
    item.extend([packed.attribute()]);
    item
}

pub(crate) fn json(entries: &[Entry]) -> Result<String, Error> {
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

#[cfg(test)]
mod tests;
