//! Kept work: files that workers upload in pieces, and the items that make them a task's.

use crate::error::Error;
use crate::items::{Item, attributes, number, start, text, value};
use crate::limits::{KEPT_SLACK_SECS, MAX_PACKED_BYTES};
use crate::{Store, keys};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::kept::{Digest, KeptWork};
use domain::{Entity, SandboxId, TaskId, Timestamp};

impl Store {
    /// Stores a piece of a file. A retry overwrites it with the same content: the hash of the file is in its key.
    pub async fn put_kept_piece(
        &self,
        id: &SandboxId,
        file: &Digest,
        piece: u64,
        data: &[u8],
        expires_at: Timestamp,
    ) -> Result<(), Error> {
        // An empty file has a piece too.
        let parts = data.chunks(MAX_PACKED_BYTES).chain(data.is_empty().then_some(data));
        for (index, part) in parts.enumerate() {
            let mut item = start(keys::kept_piece(id, file.as_str(), piece, index), "kept_piece");
            item.insert(PIECE.into(), AttributeValue::B(Blob::new(part)));
            item.insert(keys::TTL.into(), number(expires_at.as_secs() + KEPT_SLACK_SECS));
            let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
            put.send().await.map_err(Error::from_table)?;
        }
        Ok(())
    }

    /// What is stored of a piece. Empty if it has expired.
    pub async fn kept_piece(&self, id: &SandboxId, file: &Digest, piece: u64) -> Result<Vec<u8>, Error> {
        let parts = self.pieces(id, keys::kept_piece_prefix(file.as_str(), piece)).await?;
        let mut data: Vec<u8> = Vec::new();
        for part in parts {
            match part.get(PIECE) {
                Some(AttributeValue::B(bytes)) => data.extend_from_slice(bytes.as_ref()),
                _ => return Err(Error::malformed("a piece of kept work without content")),
            }
        }
        Ok(data)
    }

    /// Makes uploaded files the kept work of an attempt at a task. Replaces what was kept of it before.
    pub async fn put_kept_work(&self, task: &TaskId, kept: &KeptWork) -> Result<(), Error> {
        let mut item: Item = start(keys::kept_work(task, kept.attempt), "kept_work");
        item.extend(attributes(kept)?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }

    /// The kept work of an attempt, or of the latest one that has any. A consistent read.
    pub async fn kept_work(&self, task: &TaskId, attempt: Option<u32>) -> Result<Option<KeptWork>, Error> {
        let prefix = match attempt {
            Some(attempt) => keys::kept_work(task, attempt).sk,
            None => keys::KEPT_WORK.to_owned(),
        };
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND begins_with(#sk, :prefix)")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::partition(&Entity::Task(task.clone()))))
            .expression_attribute_values(":prefix", text(prefix))
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(1);
        let found = query.send().await.map_err(Error::from_table)?.items.unwrap_or_default();
        found.into_iter().next().map(value).transpose()
    }
}

/// The content of a part of a piece.
const PIECE: &str = "piece";
