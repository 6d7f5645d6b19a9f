//! Bodies: event data that is too large for the log, compressed and cut into pieces.
//!
//! The pieces of a body are written in the transaction that appends its event, as long as they fit. Otherwise they are
//! *detached*: written before the transaction, under a hash of their content, and the transaction writes a reference to
//! them. So an event never refers to a body that is incomplete. A crash before the transaction leaves pieces without a
//! reference; a retry of the same event overwrites them with the same content.

use crate::compression::unpack;
use crate::error::Error;
use crate::items::{Item, get_text, start, text};
use crate::limits::MAX_PACKED_BYTES;
use crate::log_hash::BodyDigest;
use crate::{Store, keys};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{JsonObject, SandboxId};
use sha2::{Digest, Sha256};

/// The compressed data of an event.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) seq: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Body {
    /// Its pieces, for the transaction that appends the event.
    pub(crate) fn items(&self, id: &SandboxId) -> Vec<Item> {
        self.pieces(|piece| keys::body(id, self.seq, piece))
    }

    fn pieces(&self, key: impl Fn(usize) -> keys::Key) -> Vec<Item> {
        let pieces = self.bytes.chunks(MAX_PACKED_BYTES).enumerate();
        pieces
            .map(|(index, piece)| {
                let mut item = start(key(index), "body");
                item.insert(PIECE.into(), AttributeValue::B(Blob::new(piece)));
                item
            })
            .collect()
    }

    fn digest(&self) -> String {
        Sha256::digest(&self.bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Store {
    /// Writes the pieces apart from any transaction. Returns the reference to them, for the transaction that appends
    /// the event. Idempotent, and harmless to concurrent writers: equal keys have equal content.
    pub(crate) async fn detach(&self, id: &SandboxId, body: &Body) -> Result<Item, Error> {
        let digest = body.digest();
        for item in body.pieces(|piece| keys::detached_body(id, &digest, piece)) {
            let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
            put.send().await.map_err(Error::from_table)?;
        }
        let mut reference = start(keys::body(id, body.seq, 0), "body");
        reference.insert(DETACHED.into(), text(digest));
        Ok(reference)
    }

    /// The full data of an event that is too large for the log.
    pub async fn body(&self, id: &SandboxId, seq: u64) -> Result<Option<JsonObject>, Error> {
        let bytes = self.body_bytes(id, seq).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = unpack(&bytes)?;
        serde_json::from_str(&text).map(Some).map_err(|e| Error::broken("reading a body", e))
    }

    /// What the running hash of the log needs of a body. That of a missing body is never equal to that of a stored one.
    pub async fn body_digest(&self, id: &SandboxId, seq: u64) -> Result<BodyDigest, Error> {
        Ok(BodyDigest::of(&Body { seq, bytes: self.body_bytes(id, seq).await? }))
    }

    /// The compressed data. Empty if there is no body.
    async fn body_bytes(&self, id: &SandboxId, seq: u64) -> Result<Vec<u8>, Error> {
        let mut pieces = self.pieces(id, keys::body_prefix(seq)).await?;
        if let [reference] = pieces.as_slice()
            && reference.contains_key(DETACHED)
        {
            let digest = get_text(reference, DETACHED)?;
            pieces = self.pieces(id, keys::detached_body_prefix(digest)).await?;
        }
        let mut bytes: Vec<u8> = Vec::new();
        for item in pieces {
            match item.get(PIECE) {
                Some(AttributeValue::B(piece)) => bytes.extend_from_slice(piece.as_ref()),
                _ => return Err(Error::malformed("a body piece without content")),
            }
        }
        Ok(bytes)
    }

    /// Items of a sandbox by the beginning of their sort keys.
    pub(crate) async fn pieces(&self, id: &SandboxId, prefix: String) -> Result<Vec<Item>, Error> {
        let (mut items, mut from) = (Vec::new(), None);
        // A query returns at most 1 MB. A body may be larger.
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :prefix)")
                .expression_attribute_names("#pk", keys::PK)
                .expression_attribute_names("#sk", keys::SK)
                .expression_attribute_values(":pk", text(keys::sandbox(id).pk))
                .expression_attribute_values(":prefix", text(prefix.clone()))
                .consistent_read(true)
                .set_exclusive_start_key(from);
            let page = query.send().await.map_err(Error::from_table)?;
            items.extend(page.items.unwrap_or_default());
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(items);
            }
        }
    }
}

/// The content of a piece.
const PIECE: &str = "piece";
/// The hash under which the pieces are stored, in the item that refers to them.
const DETACHED: &str = "detached";
