//! Schedules: the ticks of the registry, and the deletion of expired items, which DynamoDB does by itself.

use crate::aws::Sweeper;
use edge::Plane;
use edge::registry::{FUNCTIONS, Schedule, Trigger};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Items expire after hours or days, and a sweep scans the whole table.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(3600);

/// Runs until dropped.
pub async fn run(plane: Arc<Plane>, sweeper: Sweeper) {
    let mut ticking = JoinSet::new();
    for function in FUNCTIONS {
        if let Trigger::Schedule(schedule) = function.trigger {
            ticking.spawn(tick(plane.clone(), function.name, schedule));
        }
    }
    ticking.spawn(delete_expired(sweeper));
    ticking.join_all().await;
}

async fn tick(plane: Arc<Plane>, name: &'static str, schedule: Schedule) {
    let interval = Duration::from_secs(schedule.locally_every_secs);
    // The first tick is immediate, to catch up after a restart.
    loop {
        let id = plane.ids.request();
        if let Err(error) = edge::schedule::run(plane.clone(), name, schedule, &id).await {
            tracing::error!(tick.id = %id, "{name} failed: {}", app::error::chain(&error));
        }
        tokio::time::sleep(interval).await;
    }
}

async fn delete_expired(sweeper: Sweeper) {
    loop {
        tokio::time::sleep(EXPIRY_INTERVAL).await;
        match sweeper.sweep().await {
            Ok(count) => tracing::debug!("Deleted {count} expired items"),
            Err(error) => tracing::warn!(%error, "Cannot delete expired items"),
        }
    }
}
