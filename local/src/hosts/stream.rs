//! The table's stream: records to `edge::stream::broadcast`, in order for each entity.

use crate::aws::{Hub, Records, StreamRecord};
use aws_sdk_dynamodb::types::AttributeValue;
use edge::Plane;
use edge::stream::Image;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use store::keys;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Like a stream's shards: entities side by side, each entity in order.
const SHARDS: usize = 4;
/// Like an event source's batch size: what has piled up is told together.
const MAX_BATCH: usize = 64;
/// Like an event source's batching window, but only under load: what follows within this time of the last batch is
/// gathered first. Every batch costs a read of the subscriptions' stamps, whatever its size.
const WINDOW: Duration = Duration::from_millis(2);
/// How often a batch is tried before its sockets are closed instead: they come back and ask for what they missed.
const MAX_TRIES: u32 = 5;

/// Runs until the stream ends.
pub async fn run(plane: Arc<Plane>, hub: Arc<Hub>, mut records: Records) {
    let mut workers = JoinSet::new();
    let shards: Vec<_> = (0..SHARDS)
        .map(|_| {
            let (sender, shard) = mpsc::unbounded_channel();
            workers.spawn(work(plane.clone(), hub.clone(), shard));
            sender
        })
        .collect();
    while let Some(record) = records.recv().await {
        // A worker ends only with this function.
        let _ended = shards[shard_of(&record)].send(record);
    }
    drop(shards);
    workers.join_all().await;
}

async fn work(plane: Arc<Plane>, hub: Arc<Hub>, mut shard: Records) {
    let mut batch: Vec<StreamRecord> = Vec::new();
    let mut told_at = Instant::now();
    while let Some(record) = shard.recv().await {
        batch.push(record);
        tokio::time::sleep_until(told_at + WINDOW).await;
        while batch.len() < MAX_BATCH
            && let Ok(record) = shard.try_recv()
        {
            batch.push(record);
        }
        let images: Vec<_> = batch.iter_mut().map(|record| std::mem::take(&mut record.image)).collect();
        if let Err(why) = tell(&plane, images.into()).await {
            tracing::error!("Closed every socket, because they could not be told something: {why}");
            hub.close_all();
        }
        batch.clear();
        told_at = Instant::now();
    }
}

async fn tell(plane: &Arc<Plane>, images: Arc<[Image]>) -> Result<(), String> {
    let mut why = String::new();
    for tries in 1..=MAX_TRIES {
        // A task of its own: a mistake in telling must not end the telling.
        let (plane, images) = (plane.clone(), images.clone());
        let told = tokio::spawn(async move { edge::stream::broadcast(&plane, &images).await }).await;
        why = match told {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => app::error::chain(&error),
            Err(panic) => panic.to_string(),
        };
        tracing::warn!("Could not tell sockets of what was stored: {why}");
        tokio::time::sleep(Duration::from_millis(20 << tries)).await;
    }
    Err(why)
}

fn shard_of(record: &StreamRecord) -> usize {
    let mut hasher = DefaultHasher::new();
    if let Some(AttributeValue::S(partition)) = record.image.get(keys::PK) {
        partition.hash(&mut hasher);
    }
    usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0)
}
