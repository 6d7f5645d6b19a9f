//! Segments: the stored pieces of the logs of sandboxes, tasks and tickets.
//!
//! Deliberately absent: the transactions that store segments. See [`Store::append`] and [`Store::commit`].

use crate::bodies::Body;
use crate::compression::{Packed, compress};
use crate::error::Error;
use crate::items::{Item, get_number, get_text, number, start, text};
use crate::limits::{MAX_INLINE_BYTES, MAX_PACKED_BYTES};
use crate::log_hash::{self, BodyDigest};
use crate::{Store, keys};
use domain::event::BodyReference;
use domain::ingest::NewEvent;
use domain::{
    Entity, Event, EventId, EventType, JsonObject, LogHash, OrgId, Sandbox, Source, Timestamp, large_fields,
};
use serde::{Deserialize, Serialize};

/// The end of a log, which a reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    pub entity: Entity,
    /// The last sequence number.
    pub seq: u64,
    /// The number of segments.
    pub segments: u64,
}

impl From<&Sandbox> for LogEnd {
    fn from(sandbox: &Sandbox) -> Self {
        Self { entity: Entity::Sandbox(sandbox.id.clone()), seq: sandbox.seq, segments: sandbox.segments }
    }
}

/// A stored piece of a log, still packed: a small item may unpack to a large text.
#[derive(Debug, Clone)]
pub struct Segment(Item);

impl Segment {
    pub fn first_seq(&self) -> Result<u64, Error> {
        get_number(&self.0, "first_seq")
    }

    pub fn events(&self) -> Result<Vec<Event>, Error> {
        events_of(&self.0, Some(self.first_seq()?))
    }

    /// The last sequence number, as the segment states it.
    pub fn last_seq(&self) -> Result<u64, Error> {
        Ok((self.first_seq()? + get_number(&self.0, "count")?).saturating_sub(1))
    }

    /// The stored hash of the log up to the end of this segment. `None` if it was stored without one.
    pub fn log_hash(&self) -> Result<Option<LogHash>, Error> {
        log_hash::stored(&self.0)
    }

    /// The hash of the log up to the end of this segment, computed from its content. `bodies` are those that its events
    /// refer to ([`Store::body_digest`]).
    pub fn computed_hash(&self, previous: LogHash, bodies: &[BodyDigest]) -> Result<LogHash, Error> {
        log_hash::of(previous, &self.0, bodies)
    }
}

impl Store {
    /// The owning org and the end of an entity's log. A consistent read.
    pub async fn log_end(&self, entity: &Entity) -> Result<Option<(OrgId, LogEnd)>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::entity(entity).attributes().into())).send().await;
        let Some(item) = found.map_err(Error::from_table)?.item else { return Ok(None) };
        let org =
            OrgId::parse(get_text(&item, "org")?).map_err(|e| Error::broken("the org of an entity", e))?;
        let (seq, segments) = (get_number(&item, "seq")?, get_number(&item, "segments")?);
        Ok(Some((org, LogEnd { entity: entity.clone(), seq, segments })))
    }

    /// Up to `limit` segments that start at or after `from`, oldest first.
    pub async fn segments_from(
        &self,
        entity: &Entity,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Segment>, Error> {
        self.segments(entity, (from, u64::MAX), true, limit).await
    }

    /// Up to `limit` segments that start at or before `to`, newest first.
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
        // Larger numbers would not fit into a sort key.
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
    pub(crate) entity: &'a Entity,
    pub(crate) org: &'a OrgId,
    /// The sandbox's token generation. 1 for tasks and tickets.
    pub(crate) generation: u32,
}

/// Some events, for a transaction.
#[derive(Debug)]
pub(crate) struct LogItems {
    pub(crate) segments: Vec<Item>,
    /// Data that is too large for the segments.
    pub(crate) bodies: Vec<Body>,
}

impl LogItems {
    /// Continues the log of a sandbox: counts its segments, and continues its running hash.
    pub(crate) fn continue_log_of(&mut self, sandbox: &mut Sandbox) -> Result<(), Error> {
        for segment in &mut self.segments {
            let first = get_number(segment, "first_seq")?;
            let seqs = first..first + get_number(segment, "count")?;
            let bodies: Vec<BodyDigest> =
                self.bodies.iter().filter(|body| seqs.contains(&body.seq)).map(BodyDigest::of).collect();
            let hash = log_hash::of(sandbox.log_hash.unwrap_or(LogHash::EMPTY), segment, &bodies)?;
            log_hash::store(segment, hash);
            sandbox.log_hash = Some(hash);
        }
        sandbox.segments += self.segments.len() as u64;
        Ok(())
    }
}

/// The items of these events, the first of which has this sequence number. `None` if an event is too large: only the
/// log of a sandbox has bodies for data above [`MAX_INLINE_BYTES`]. The caller checks the size of the transaction.
pub(crate) fn log_items(
    log: LogOf<'_>,
    first_seq: u64,
    now: Timestamp,
    events: &[NewEvent],
) -> Result<Option<LogItems>, Error> {
    let (mut entries, mut bodies) = (Vec::with_capacity(events.len()), Vec::new());
    for (event, seq) in events.iter().zip(first_seq..) {
        let (entry, body) = entry(event)?;
        entries.push(entry);
        match (body, log.entity) {
            (None, _) => {}
            (Some(bytes), Entity::Sandbox(_)) => bodies.push(Body { seq, bytes }),
            (Some(_), Entity::Task(_) | Entity::Ticket(_)) => return Ok(None),
        }
    }
    Ok(Some(LogItems { segments: segment_items(log, first_seq, now, &entries)?, bodies }))
}

/// An event in a segment. Its sequence number follows from its position, its time from the segment.
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

/// The log entry of an event, and its compressed data if that is too large for the log.
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
    let cut = large_fields::omit_large_fields(&event.data, MAX_INLINE_BYTES);
    entry.data = cut.data;
    entry.body = Some(BodyReference { size_bytes: size as u64, omitted: cut.omitted });
    Ok((entry, Some(compress(event.data.text())?)))
}

/// One segment, or several if the events do not fit into one item: it is split in half until they do.
fn segment_items(
    log: LogOf<'_>,
    first_seq: u64,
    now: Timestamp,
    entries: &[Entry],
) -> Result<Vec<Item>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let packed = Packed::new(encode(entries)?);
    if packed.len() > MAX_PACKED_BYTES && entries.len() > 1 {
        let (left, right) = entries.split_at(entries.len() / 2);
        let mut items = segment_items(log, first_seq, now, left)?;
        items.extend(segment_items(log, first_seq + left.len() as u64, now, right)?);
        return Ok(items);
    }
    let mut item = event_item(keys::segment(log.entity, first_seq), "log", log, now, packed);
    item.insert("first_seq".into(), number(first_seq));
    item.insert("count".into(), number(entries.len()));
    if entries.iter().any(|entry| entry.event_type.is_lifecycle()) {
        let (name, value) = keys::LIFECYCLE;
        item.insert(name.into(), text(value));
    }
    Ok(vec![item])
}

/// An item that the stream carries to sockets.
pub(crate) fn event_item(key: keys::Key, kind: &str, log: LogOf<'_>, now: Timestamp, packed: Packed) -> Item {
    let mut item = start(key, kind);
    item.insert("org".into(), text(log.org.as_str()));
    item.insert("received_at".into(), text(now.to_string()));
    item.insert("generation".into(), number(log.generation));
    item.extend([packed.attribute()]);
    item
}

pub(crate) fn encode(entries: &[Entry]) -> Result<String, Error> {
    serde_json::to_string(entries).map_err(|e| Error::broken("writing a segment", e))
}

/// The events of a segment, or ephemeral events, which have no sequence numbers.
pub(crate) fn events_of(item: &Item, first_seq: Option<u64>) -> Result<Vec<Event>, Error> {
    let received_at = Timestamp::parse(get_text(item, "received_at")?)
        .ok_or_else(|| Error::malformed("a segment with a malformed time"))?;
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
