//! Scheduled work.

use crate::metrics::{self, Metric};
use crate::plane::Plane;
use crate::registry::Schedule;
use crate::spans;
use app::{Error, health, messages, reconcile};
use std::pin::Pin;
use std::sync::Arc;
use tracing::Instrument;

/// The work of one schedule.
pub type Tick = fn(Arc<Plane>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Runs one tick of a function's schedule. `event_id` is the id of the event that triggered it.
pub async fn run(plane: Arc<Plane>, function: &str, schedule: Schedule, event_id: &str) -> Result<(), Error> {
    (schedule.tick)(plane).instrument(spans::tick(function, event_id)).await
}

/// Emits the health metric. An alarm fires when the metric is missing.
pub const CHECK: Tick = |plane| Box::pin(check(plane));

/// Enqueues reconciliation of everything that is due.
pub const SWEEP: Tick = |plane| Box::pin(sweep(plane));

/// Compares the sandboxes of the providers with those of the plane.
pub const SWEEP_PROVIDERS: Tick = |plane| Box::pin(sweep_providers(plane));

/// Deletes the queues of sandboxes that have ended.
pub const SWEEP_MAILBOXES: Tick = |plane| Box::pin(sweep_mailboxes(plane));

/// Releases the leases of a process that has died. Only for a host that runs as a single process.
pub async fn take_over(plane: &Plane) -> Result<(), Error> {
    reconcile::take_over::run(plane.orchestration()?).await?;
    Ok(())
}

async fn sweep(plane: Arc<Plane>) -> Result<(), Error> {
    let requested = reconcile::sweep::run(plane.orchestration()?).await?;
    metrics::emit("sandboxes-sweep", plane.clock.now(), &[Metric::count("ReconcileRequests", requested)]);
    Ok(())
}

async fn sweep_providers(plane: Arc<Plane>) -> Result<(), Error> {
    let deps =
        reconcile::sweep_providers::Deps { base: plane.orchestration()?, providers: plane.providers()? };
    let found = reconcile::sweep_providers::run(deps).await?;
    let counts =
        [Metric::count("OrphanedSandboxes", found.orphans), Metric::count("LostSandboxes", found.lost)];
    metrics::emit("sandboxes-sweep-providers", plane.clock.now(), &counts);
    Ok(())
}

async fn sweep_mailboxes(plane: Arc<Plane>) -> Result<(), Error> {
    let messages::Deps { store, mailboxes, .. } = plane.message_deps()?;
    let deleted =
        messages::sweep_mailboxes::run(messages::sweep_mailboxes::Deps { store, mailboxes }).await?;
    metrics::emit("messages-sweep", plane.clock.now(), &[Metric::count("LeftoverQueues", deleted)]);
    Ok(())
}

async fn check(plane: Arc<Plane>) -> Result<(), Error> {
    health::run(health::Deps { store: &plane.store }).await?;
    metrics::emit("platform-check", plane.clock.now(), &[Metric::count("HealthChecks", 1)]);
    Ok(())
}
