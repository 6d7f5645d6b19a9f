//! What happens every so often: the ticks of the registry, and the sweep that AWS does by itself.

use crate::aws::Sweeper;
use edge::Plane;
use edge::registry::{FUNCTIONS, Schedule, Trigger};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// What expires does so after hours or days, and a sweep looks at every item.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Runs until it is dropped.
pub async fn run(plane: Arc<Plane>, sweeper: Sweeper) {
    let mut ticking = JoinSet::new();
    for function in FUNCTIONS {
        if let Trigger::Schedule(schedule) = function.trigger {
            ticking.spawn(tick(plane.clone(), function.name, schedule));
        }
    }
    ticking.spawn(sweep(sweeper));
    ticking.join_all().await;
}

async fn tick(plane: Arc<Plane>, name: &'static str, schedule: Schedule) {
    let every = Duration::from_secs(schedule.locally_every_secs);
    // At once, and then again and again: what went on while nobody was here is looked at first.
    loop {
        if let Err(error) = (schedule.tick)(plane.clone()).await {
            tracing::error!("{name} failed: {}", app::error::chain(&error));
        }
        tokio::time::sleep(every).await;
    }
}

async fn sweep(sweeper: Sweeper) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match sweeper.sweep().await {
            Ok(count) => tracing::debug!("Removed {count} expired items"),
            Err(error) => tracing::warn!(%error, "Could not remove expired items"),
        }
    }
}
