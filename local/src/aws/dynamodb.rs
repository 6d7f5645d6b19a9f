//! DynamoDB on a SQLite file, and the table's stream.
//!
//! The engine's own stream is off, because it slows writes down as records accumulate (5,600 puts per second at 1,000
//! records, 280 at 20,000). Instead, the items of successful writes are sent to the stream from here. Their order per
//! partition is the order of the writes, as on AWS. Records that are lost when the process dies do not matter: every socket
//! dies with it, and its client fetches what it missed.

use super::connector::{Reply, validation_error};
use crate::config::private_file;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynoxide::actions::transact_write_items::TransactWriteItemsRequest;
use dynoxide::types::AttributeValue as EngineValue;
use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use store::keys;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has it: survives `kill -9`, not a power failure.
    Process,
    /// When the disk has it: survives a power failure, and costs a flush per write.
    Disk,
}

/// An item that was put into the table.
#[derive(Debug)]
pub struct StreamRecord {
    /// Increases with every record, as in DynamoDB streams.
    pub sequence_number: u64,
    pub image: HashMap<String, AttributeValue>,
    /// Frees its slot in the backlog when dropped.
    _slot: Option<OwnedSemaphorePermit>,
}

/// The table's stream, in the order of the writes.
pub type Records = mpsc::UnboundedReceiver<StreamRecord>;

/// Maximum backlog of records. Beyond it writers wait, so that memory stays bounded and no record is dropped.
const MAX_BACKLOG: usize = 4096;

pub(super) struct DynamoDb {
    database: Database,
    durability: Durability,
    /// Held while an item is written and sent to the stream, so that both have the same order.
    stream: Mutex<Stream>,
    slots: Arc<Semaphore>,
}

struct Stream {
    records: mpsc::UnboundedSender<StreamRecord>,
    last_sequence_number: u64,
}

impl Stream {
    fn send(&mut self, image: HashMap<String, AttributeValue>, slot: Option<OwnedSemaphorePermit>) {
        self.last_sequence_number += 1;
        let sequence_number = self.last_sequence_number;
        // The receiver is dropped only when the process ends.
        let _dropped = self.records.send(StreamRecord { sequence_number, image, _slot: slot });
    }
}

impl std::fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamoDb").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl DynamoDb {
    pub(super) fn open(path: &Path, durability: Durability) -> anyhow::Result<(Self, Records)> {
        // SQLite creates its other files with the permissions of this one.
        private_file(path)?;
        let path =
            path.to_str().ok_or_else(|| anyhow::anyhow!("the path of the data directory is not UTF-8"))?;
        let database = Database::new(path)?;
        if durability == Durability::Process {
            // Despite its name, this sets `synchronous = NORMAL`: a commit does not wait for the disk.
            database.disable_bulk_loading()?;
        }
        let (records, receiver) = mpsc::unbounded_channel();
        let slots = Arc::new(Semaphore::new(MAX_BACKLOG));
        let stream = Mutex::new(Stream { records, last_sequence_number: 0 });
        Ok((Self { database, durability, stream, slots }, receiver))
    }

    pub(super) async fn call(&self, operation: &str, body: &[u8]) -> Reply {
        if operation != "TransactWriteItems" {
            return self.run_blocking(|| self.execute(operation, body));
        }
        match serde_json::from_slice(body) {
            Ok(request) => self.transact(request).await,
            Err(error) => validation_error(&error.to_string()),
        }
    }

    /// Runs the engine on this thread. With `Durability::Disk` a flush blocks the thread for milliseconds, so the runtime moves
    /// other tasks away.
    fn run_blocking(&self, work: impl FnOnce() -> Reply) -> Reply {
        match self.durability {
            Durability::Process => work(),
            Durability::Disk => tokio::task::block_in_place(work),
        }
    }

    /// Returns the number of deleted items.
    pub(super) fn delete_expired(&self) -> anyhow::Result<usize> {
        Ok(self.database.sweep_ttl()?)
    }

    fn execute(&self, operation: &str, body: &[u8]) -> Reply {
        let engine = &self.database;
        match operation {
            "GetItem" => run(body, |request| engine.get_item(request)),
            "BatchGetItem" => run(body, |request| engine.batch_get_item(request)),
            "Query" => run(body, |request| engine.query(request)),
            "PutItem" => run(body, |request| engine.put_item(request)),
            "UpdateItem" => run(body, |request| engine.update_item(request)),
            "DeleteItem" => run(body, |request| engine.delete_item(request)),
            "CreateTable" => run(body, |request| engine.create_table(request)),
            "UpdateTimeToLive" => run(body, |request| engine.update_time_to_live(request)),
            _ => validation_error(&format!("{operation} is not supported by the in-process AWS")),
        }
    }

    async fn transact(&self, mut request: TransactWriteItemsRequest) -> Reply {
        // The SDK sends an idempotency token for its retries. Nothing is retried here, and the engine would remember every
        // token for ten minutes.
        request.client_request_token = None;
        let puts = request.transact_items.iter().filter_map(|item| item.put.as_ref());
        let images: Vec<_> = puts.filter(|put| is_broadcast(&put.item)).map(|put| image(&put.item)).collect();
        if images.is_empty() {
            return self.run_blocking(|| reply(self.database.transact_write_items(request)));
        }
        // Only writes that produce records wait for a slot: the consumer of the stream also writes, and must not wait for
        // itself.
        let mut slot = self.slots.clone().acquire_owned().await.ok();
        self.run_blocking(|| {
            let mut stream = self.stream.lock().expect("no code panics while it holds the stream");
            let done = self.database.transact_write_items(request);
            for image in images.into_iter().take_while(|_| done.is_ok()) {
                stream.send(image, slot.take());
            }
            reply(done)
        })
    }
}

fn is_broadcast(item: &HashMap<String, EngineValue>) -> bool {
    matches!(item.get(keys::SK), Some(EngineValue::S(sk)) if keys::is_broadcast(sk))
}

fn image(item: &HashMap<String, EngineValue>) -> HashMap<String, AttributeValue> {
    item.iter().map(|(name, value)| (name.clone(), sdk_value(value))).collect()
}

fn sdk_value(value: &EngineValue) -> AttributeValue {
    match value {
        EngineValue::S(text) => AttributeValue::S(text.clone()),
        EngineValue::N(number) => AttributeValue::N(number.clone()),
        EngineValue::B(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
        EngineValue::BOOL(truth) => AttributeValue::Bool(*truth),
        EngineValue::NULL(null) => AttributeValue::Null(*null),
        EngineValue::SS(texts) => AttributeValue::Ss(texts.clone()),
        EngineValue::NS(numbers) => AttributeValue::Ns(numbers.clone()),
        EngineValue::BS(blobs) => {
            AttributeValue::Bs(blobs.iter().map(|bytes| Blob::new(bytes.clone())).collect())
        }
        EngineValue::L(values) => AttributeValue::L(values.iter().map(sdk_value).collect()),
        EngineValue::M(fields) => AttributeValue::M(image(fields)),
    }
}

fn run<I: DeserializeOwned, O: Serialize>(
    body: &[u8],
    operation: impl FnOnce(I) -> Result<O, DynoxideError>,
) -> Reply {
    let request = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return validation_error(&error.to_string()),
    };
    reply(operation(request))
}

fn reply<O: Serialize>(outcome: Result<O, DynoxideError>) -> Reply {
    match outcome {
        Ok(output) => match serde_json::to_vec(&output) {
            Ok(body) => Reply::new(200, body),
            Err(error) => validation_error(&error.to_string()),
        },
        Err(error) => Reply::new(error.status_code(), error.to_json().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aws;
    use super::*;
    use domain::{Entity, OrgId, Sandbox, SandboxId, Timestamp};
    use futures_util::FutureExt;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    fn put_segment(seq: u64) -> Vec<u8> {
        let key = keys::segment(&Entity::Sandbox(SandboxId::parse("s-1").unwrap()), seq);
        let put = json!({"TableName": "sunaba", "Item": {"PK": {"S": key.pk}, "SK": {"S": key.sk}}});
        json!({"TransactItems": [{"Put": put}]}).to_string().into_bytes()
    }

    /// The consumer of the stream also writes. If that waited for a slot, it would deadlock.
    #[tokio::test]
    async fn full_backlog_blocks_only_writes_that_produce_records() {
        let data = tempfile::TempDir::new().unwrap();
        let (aws, mut feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        aws.dynamodb.slots.forget_permits(MAX_BACKLOG - 1);
        assert_eq!(aws.dynamodb.call("TransactWriteItems", &put_segment(1)).await.status, 200);

        let (id, org) = (SandboxId::parse("s-2").unwrap(), OrgId::parse("acme").unwrap());
        let sandbox = Sandbox::new(id, org, None, Timestamp::from_secs(0));
        let other = timeout(Duration::from_secs(60), aws.store.create_sandbox(&sandbox)).await;
        assert!(other.expect("a write without records does not wait").unwrap());

        let second = put_segment(2);
        let mut waiting = std::pin::pin!(aws.dynamodb.call("TransactWriteItems", &second));
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for a slot");
        drop(feeds.records.recv().await);
        let later = timeout(Duration::from_secs(60), waiting).await;
        assert_eq!(later.expect("a slot was freed").status, 200);
    }
}
