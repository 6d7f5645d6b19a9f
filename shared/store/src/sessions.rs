//! Session transcripts of agents: one state item for each, and its entries in chunks.
//!
//! Entries of one request are packed together as a chunk. A chunk that exceeds the size of an item is cut into
//! pieces, each of which carries the number of the chunk's first entry.

use crate::compression::{Packed, unpack};
use crate::error::Error;
use crate::items::{Item, attributes, get_number, get_text, number, start, text, value};
use crate::limits::{MAX_PACKED_BYTES, MAX_TRANSACTION_BYTES};
use crate::log::{Existing, size};
use crate::sandboxes::sandbox_of;
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use domain::{JsonObject, Sandbox, SandboxId, Session, SessionId};

/// Entries to append to a session.
#[derive(Debug)]
pub struct AddEntries<'a> {
    /// The session that was read. `None` if it is new.
    pub before: Option<&'a Session>,
    /// The session after the entries.
    pub after: &'a Session,
    /// The number of the first entry.
    pub first: u64,
    pub entries: &'a [JsonObject],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    Stored,
    /// Another writer committed first. Nothing was stored.
    Conflict,
    /// The entries exceed the size of a transaction even when they are compressed. Nothing was stored.
    TooLarge,
}

/// Entries of one request, still packed: a small item may unpack to a large text.
#[derive(Debug, Clone)]
pub struct Chunk {
    first: u64,
    pieces: Vec<Item>,
}

impl Chunk {
    /// The number of its first entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn entries(&self) -> Result<Vec<JsonObject>, Error> {
        let packed = match self.pieces.as_slice() {
            [single] if !single.contains_key(PIECE) => Packed::text_of(single)?,
            pieces => {
                let mut bytes: Vec<u8> = Vec::new();
                for piece in pieces {
                    match piece.get(PIECE) {
                        Some(AttributeValue::B(piece)) => bytes.extend_from_slice(piece.as_ref()),
                        _ => return Err(Error::malformed("a piece of entries without content")),
                    }
                }
                unpack(&bytes)?
            }
        };
        serde_json::from_str(&packed).map_err(|e| Error::broken("reading entries", e))
    }

    fn is_complete(&self) -> Result<bool, Error> {
        let wanted = get_number(&self.pieces[0], PIECES)?;
        Ok(self.pieces.len() as u64 >= wanted)
    }
}

impl Store {
    /// Reads a sandbox and a session consistently, in one call.
    pub async fn sandbox_and_session(
        &self,
        sandbox_id: &SandboxId,
        session_id: &SessionId,
    ) -> Result<(Option<Sandbox>, Option<Session>), Error> {
        let wanted =
            [keys::sandbox(sandbox_id), keys::session(session_id)].map(|key| key.attributes().into());
        let (mut sandbox, mut session) = (None, None);
        for item in self.get_all(wanted.into()).await? {
            match get_text(&item, "kind")? {
                SESSION => session = Some(value(item)?),
                _ => sandbox = Some(sandbox_of(item)?),
            }
        }
        Ok((sandbox, session))
    }

    /// A consistent read.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::session(id).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(value).transpose()
    }

    /// Stores entries and the new state of the session in one transaction.
    ///
    /// **Invariant:** the session advances if and only if the entries are stored, so a session has no gap.
    pub async fn add_entries(&self, add: AddEntries<'_>) -> Result<Added, Error> {
        let items = chunk_items(&add.after.id, add.first, add.entries)?;
        if items.iter().map(size).sum::<usize>() > MAX_TRANSACTION_BYTES {
            return Ok(Added::TooLarge);
        }
        let mut writes = vec![self.session_update(add.before, add.after)?];
        for item in items {
            writes.push(self.put(item, Existing::Overwrite)?);
        }
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(Added::Stored),
            Err(SdkError::ServiceError(refused)) if is_conflict(refused.err()) => Ok(Added::Conflict),
            Err(error) => Err(Error::from_table(error)),
        }
    }

    /// Sets all known attributes of a session, if the stored version is still that of `before`. Attributes that only
    /// a newer deploy knows stay as they are.
    fn session_update(&self, before: Option<&Session>, after: &Session) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::session(&after.id).attributes().into()));
        update = match before {
            None => update
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", keys::PK),
            Some(before) => update
                .condition_expression("#version = :before")
                .expression_attribute_values(":before", number(before.version)),
        };
        let mut fields: Vec<(String, AttributeValue)> = attributes(after)?.into_iter().collect();
        fields.extend([("kind".to_owned(), text(SESSION)), ("v".to_owned(), number(1))]);
        let mut set = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            set.push(format!("#{name} = :{name}"));
            update = update
                .expression_attribute_names(format!("#{name}"), &name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        let update = update.update_expression(format!("SET {}", set.join(", "))).build();
        let update = update.map_err(|e| Error::broken("updating a session", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    /// Chunks starting with the one that holds entry `from`, oldest first: about `limit`, or as many as one query
    /// returns. Empty if there is no such entry.
    pub async fn chunks_from(&self, id: &SessionId, from: u64, limit: usize) -> Result<Vec<Chunk>, Error> {
        let chunks = self.chunks_at(id, from, limit).await?;
        if chunks.first().is_some_and(|chunk| chunk.first == from) {
            return Ok(chunks);
        }
        // A reader that resumes usually starts at a chunk boundary. Otherwise the entry is in the last chunk that
        // starts before it.
        let query = self.entries_between(id, 0, from).scan_index_forward(false).limit(1);
        let page = query.send().await.map_err(Error::from_table)?;
        match page.items.unwrap_or_default().first() {
            Some(before) => self.chunks_at(id, get_number(before, FIRST)?, limit).await,
            None => Ok(Vec::new()),
        }
    }

    async fn chunks_at(&self, id: &SessionId, from: u64, limit: usize) -> Result<Vec<Chunk>, Error> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut start_key = None;
        // A query may end within a chunk: at its limit, or when it has read 1 MB.
        loop {
            let query = self
                .entries_between(id, from, keys::MAX_NUMBER)
                .limit(i32::try_from(limit).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start_key);
            let page = query.send().await.map_err(Error::from_table)?;
            for item in page.items.unwrap_or_default() {
                let first = get_number(&item, FIRST)?;
                match chunks.last_mut().filter(|chunk| chunk.first == first) {
                    Some(chunk) => chunk.pieces.push(item),
                    None => chunks.push(Chunk { first, pieces: vec![item] }),
                }
            }
            start_key = page.last_evaluated_key;
            let complete = chunks.last().map_or(Ok(true), Chunk::is_complete)?;
            if complete {
                return Ok(chunks);
            }
            if start_key.is_none() {
                return Err(Error::malformed("a chunk of entries with a missing piece"));
            }
        }
    }

    fn entries_between(
        &self,
        id: &SessionId,
        from: u64,
        to: u64,
    ) -> aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::session(id).pk))
            .expression_attribute_values(":from", text(keys::entries(id, from, 0).sk))
            .expression_attribute_values(":to", text(keys::entries(id, to, 0).sk))
            .consistent_read(true)
    }
}

/// `kind` of a session's state item.
const SESSION: &str = "session";
/// The number of a chunk's first entry, on each of its pieces.
const FIRST: &str = "first";
/// The number of pieces of a chunk, on each of its pieces.
const PIECES: &str = "pieces";
/// The content of one of several pieces.
const PIECE: &str = "piece";

fn chunk_items(id: &SessionId, first: u64, entries: &[JsonObject]) -> Result<Vec<Item>, Error> {
    let json = serde_json::to_string(entries).map_err(|e| Error::broken("writing entries", e))?;
    let item = |piece: usize, pieces: usize, content: (String, AttributeValue)| {
        let mut item = start(keys::entries(id, first, piece), "entries");
        item.insert(FIRST.into(), number(first));
        item.insert("count".into(), number(entries.len()));
        item.insert(PIECES.into(), number(pieces));
        item.extend([content]);
        item
    };
    let packed = Packed::new(json);
    if packed.len() <= MAX_PACKED_BYTES {
        return Ok(vec![item(0, 1, packed.attribute())]);
    }
    // Always compressed, because a piece may end within a character.
    let bytes = packed.into_compressed()?;
    let pieces: Vec<&[u8]> = bytes.chunks(MAX_PACKED_BYTES).collect();
    let content = |piece: &[u8]| (PIECE.to_owned(), AttributeValue::B(Blob::new(piece)));
    Ok(pieces.iter().enumerate().map(|(index, piece)| item(index, pieces.len(), content(piece))).collect())
}

fn is_conflict(error: &TransactWriteItemsError) -> bool {
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { return false };
    let codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    codes.into_iter().any(|code| matches!(code, "ConditionalCheckFailed" | "TransactionConflict"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_a_round_trip_in_any_number_of_pieces() {
        let id = SessionId::parse("c0ffee").unwrap();
        let mut noise = 7u64;
        let mut entry = |bytes: usize| {
            let characters = std::iter::repeat_with(|| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from_digit(u32::try_from((noise >> 33) % 36).unwrap(), 36).unwrap()
            });
            JsonObject::of(&serde_json::json!({"text": characters.take(bytes).collect::<String>()}))
        };
        for (sizes, is_split) in
            [(vec![10], false), (vec![2_000, 10, 5_000], false), (vec![400_000, 10, 700_000], true)]
        {
            let entries: Vec<JsonObject> = sizes.into_iter().map(&mut entry).collect();
            let pieces = chunk_items(&id, 7, &entries).unwrap();
            assert!((pieces.len() > 1) == is_split && pieces.iter().all(|item| size(item) < 400_000));
            let chunk = Chunk { first: 7, pieces };
            assert!(chunk.is_complete().unwrap());
            assert_eq!(chunk.entries().unwrap(), entries);
        }
    }
}
