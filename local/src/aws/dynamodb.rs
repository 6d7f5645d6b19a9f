//! DynamoDB on a SQLite file, and the table's stream.
//!
//! The engine's own stream stays off: with it on, a write costs more the more records there are (5,600 puts a
//! second at 1,000 records, 280 at 20,000). Instead, what was put by a successful write is handed on from here.
//! Its order per partition is the order of the writes, as on AWS; what is not handed on when the process dies
//! does not matter, because every socket dies with it and its client asks for what it has missed.

use super::connector::{Reply, refused};
use crate::config::owned_file;
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

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the system has it: survives `kill -9`, not a power cut.
    Process,
    /// When the disk has it: survives a power cut, and costs a flush per write.
    Disk,
}

/// Something that was put into the table.
#[derive(Debug)]
pub struct StreamRecord {
    /// The item.
    pub image: HashMap<String, AttributeValue>,
    /// Gives its place back when it is done with.
    _place: Option<OwnedSemaphorePermit>,
}

/// The table's stream, in the order of the writes.
pub type Records = mpsc::UnboundedReceiver<StreamRecord>;

/// How many records may wait to be told. Beyond it writers wait, so that memory stays bounded and nothing is
/// left out.
const MAX_WAITING_RECORDS: usize = 4096;

pub(super) struct DynamoDb {
    database: Database,
    durability: Durability,
    /// Held while a write with news is made and handed on: what is first in the table is first in the stream.
    records: Mutex<mpsc::UnboundedSender<StreamRecord>>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamoDb").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl DynamoDb {
    pub(super) fn open(path: &Path, durability: Durability) -> anyhow::Result<(Self, Records)> {
        // SQLite gives its other files the rights of this one.
        owned_file(path)?;
        let path = path.to_str().ok_or_else(|| anyhow::anyhow!("the data folder's name is not UTF-8"))?;
        let database = Database::new(path)?;
        if durability == Durability::Process {
            // Despite its name: sets synchronous NORMAL, in which a commit waits for the system and not for
            // the disk.
            database.disable_bulk_loading()?;
        }
        let (records, receiver) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(MAX_WAITING_RECORDS));
        Ok((Self { database, durability, records: Mutex::new(records), places }, receiver))
    }

    pub(super) async fn call(&self, operation: &str, body: &[u8]) -> Reply {
        if operation != "TransactWriteItems" {
            return self.now(|| self.execute(operation, body));
        }
        match serde_json::from_slice(body) {
            Ok(request) => self.transact(request).await,
            Err(error) => refused(&error.to_string()),
        }
    }

    /// Runs the engine on this thread. A flush takes milliseconds, during which the thread could serve nobody:
    /// then the others are told.
    fn now(&self, work: impl FnOnce() -> Reply) -> Reply {
        match self.durability {
            Durability::Process => work(),
            Durability::Disk => tokio::task::block_in_place(work),
        }
    }

    /// Removes what has expired; how many items that were.
    pub(super) fn sweep_expired(&self) -> anyhow::Result<usize> {
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
            _ => refused(&format!("{operation} is not something that this plane uses")),
        }
    }

    async fn transact(&self, mut request: TransactWriteItemsRequest) -> Reply {
        // The SDK numbers its calls so that its own retries are safe. Nothing is retried here, and the engine would
        // remember every call for ten minutes.
        request.client_request_token = None;
        let puts = request.transact_items.iter().filter_map(|item| item.put.as_ref());
        let news: Vec<_> = puts.filter(|put| is_news(&put.item)).map(|put| image(&put.item)).collect();
        if news.is_empty() {
            return self.now(|| reply(self.database.transact_write_items(request)));
        }
        // Only for news: whoever tells the news writes too, and must never wait for itself.
        let mut place = self.places.clone().acquire_owned().await.ok();
        self.now(|| {
            let records = self.records.lock().expect("no code panics while it holds the stream");
            let done = self.database.transact_write_items(request);
            for image in news.into_iter().take_while(|_| done.is_ok()) {
                // The receiver is gone only when the process ends.
                let _ended = records.send(StreamRecord { image, _place: place.take() });
            }
            reply(done)
        })
    }
}

fn is_news(item: &HashMap<String, EngineValue>) -> bool {
    matches!(item.get(keys::SK), Some(EngineValue::S(sk)) if keys::is_news(sk))
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
        Err(error) => return refused(&error.to_string()),
    };
    reply(operation(request))
}

fn reply<O: Serialize>(outcome: Result<O, DynoxideError>) -> Reply {
    match outcome {
        Ok(answer) => match serde_json::to_vec(&answer) {
            Ok(body) => Reply::new(200, body),
            Err(error) => refused(&error.to_string()),
        },
        Err(error) => Reply::new(error.status_code(), error.to_json().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aws;
    use super::*;
    use domain::{Entity, Head, OrgId, SandboxId, Timestamp};
    use futures_util::FutureExt;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    fn news(seq: u64) -> Vec<u8> {
        let key = keys::segment(&Entity::Sandbox(SandboxId::parse("s-1").unwrap()), seq);
        let put = json!({"TableName": "sunaba", "Item": {"PK": {"S": key.pk}, "SK": {"S": key.sk}}});
        json!({"TransactItems": [{"Put": put}]}).to_string().into_bytes()
    }

    /// Whoever tells the news also writes. If that waited for a place among the news, nobody could go on.
    #[tokio::test]
    async fn when_the_news_pile_up_only_news_wait() {
        let data = tempfile::TempDir::new().unwrap();
        let (aws, mut feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        aws.dynamodb.places.forget_permits(MAX_WAITING_RECORDS - 1);
        assert_eq!(aws.dynamodb.call("TransactWriteItems", &news(1)).await.status, 200);

        let (id, org) = (SandboxId::parse("s-2").unwrap(), OrgId::parse("acme").unwrap());
        let head = Head::new(id, org, None, Timestamp::from_secs(0));
        let other = timeout(Duration::from_secs(60), aws.store.create_head(&head)).await;
        assert!(other.expect("a write without news does not wait").unwrap());

        let second = news(2);
        let mut waiting = std::pin::pin!(aws.dynamodb.call("TransactWriteItems", &second));
        assert!(waiting.as_mut().now_or_never().is_none(), "news wait for a place");
        drop(feeds.records.recv().await);
        let later = timeout(Duration::from_secs(60), waiting).await;
        assert_eq!(later.expect("a place was given back").status, 200);
    }
}
