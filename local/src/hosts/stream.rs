//! The table's stream: passes records to `edge::stream::broadcast`, in order for each entity.

use crate::aws::{Hub, Records, StreamRecord};
use aws_sdk_dynamodb::types::AttributeValue;
use client::{Backoff, Wait};
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

/// Like the shards of a stream: entities in parallel, each entity in order.
const SHARDS: usize = 4;
/// Like the batch size of an event source mapping.
const MAX_BATCH: usize = 64;
/// Like the batching window of an event source mapping, but only under load: records that follow within this time of the
/// last batch are batched. Every batch reads the subscription versions, whatever its size.
const WINDOW: Duration = Duration::from_millis(2);
/// After this many failed attempts all sockets are closed. Clients reconnect and fetch what they missed.
const MAX_ATTEMPTS: u32 = 5;
/// Delays between attempts.
const RETRIES: Backoff = Backoff::new(Duration::from_millis(40), Duration::from_secs(10));

/// Runs until the stream ends.
pub async fn run(plane: Arc<Plane>, hub: Arc<Hub>, mut records: Records) {
    let mut tasks = JoinSet::new();
    let shards: Vec<_> = (0..SHARDS)
        .map(|_| {
            let (sender, shard) = mpsc::unbounded_channel();
            tasks.spawn(process(plane.clone(), hub.clone(), shard));
            sender
        })
        .collect();
    while let Some(record) = records.recv().await {
        // A receiver is dropped only when this function ends.
        let _dropped = shards[shard_of(&record)].send(record);
    }
    drop(shards);
    tasks.join_all().await;
}

async fn process(plane: Arc<Plane>, hub: Arc<Hub>, mut shard: Records) {
    let mut batch: Vec<StreamRecord> = Vec::new();
    let mut last_batch_at = Instant::now();
    while let Some(record) = shard.recv().await {
        batch.push(record);
        tokio::time::sleep_until(last_batch_at + WINDOW).await;
        while batch.len() < MAX_BATCH
            && let Ok(record) = shard.try_recv()
        {
            batch.push(record);
        }
        let sequence_number =
            batch.first().map(|record| record.sequence_number.to_string()).unwrap_or_default();
        let images: Vec<_> = batch.iter_mut().map(|record| std::mem::take(&mut record.image)).collect();
        if let Err(why) = broadcast(&plane, sequence_number.into(), images.into()).await {
            tracing::error!("Broadcast failed {MAX_ATTEMPTS} times; closing all sockets: {why}");
            hub.close_all();
        }
        batch.clear();
        last_batch_at = Instant::now();
    }
}

async fn broadcast(
    plane: &Arc<Plane>,
    sequence_number: Arc<str>,
    images: Arc<[Image]>,
) -> Result<(), String> {
    let mut why = String::new();
    for attempt in 1..=MAX_ATTEMPTS {
        // In a task of its own, so that a panic does not end the loop.
        let (plane, sequence_number, images) = (plane.clone(), sequence_number.clone(), images.clone());
        let broadcast =
            tokio::spawn(async move { edge::stream::broadcast(&plane, &sequence_number, &images).await });
        why = match broadcast.await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => app::error::chain(&error),
            Err(panic) => panic.to_string(),
        };
        tracing::warn!("Broadcast failed (attempt {attempt} of {MAX_ATTEMPTS}): {why}");
        tokio::time::sleep(RETRIES.wait(attempt - 1)).await;
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
