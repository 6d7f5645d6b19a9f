//! The uptime of the plane. A sandbox must not be ended for missing heartbeats that the plane could not receive.

use crate::error::Error;
use crate::orchestration::Deps;
use domain::sandbox::reconcile::{End, Step, next, next_since};
use domain::uptime::{Uptime, since};
use domain::{Sandbox, Task, Timestamp};

/// The next step for a sandbox. The uptime is read only if the sandbox would be ended because it was silent.
pub(crate) async fn due(deps: Deps<'_>, sandbox: &Sandbox, task: Option<&Task>) -> Result<Step, Error> {
    let (now, thresholds) = (deps.clock.now(), &deps.orchestration.thresholds);
    let step = next(sandbox, task, thresholds, now);
    match &step {
        Step::End(End { cause, .. }) if cause.is_silence() => {
            let uptime = deps.store.uptime().await?;
            let up_since = since(uptime.as_ref(), now);
            Ok(next_since(sandbox, task, thresholds, Some(up_since), now))
        }
        _ => Ok(step),
    }
}

/// Records that the plane is up. Returns since when it has been without a break.
pub(crate) async fn record(deps: Deps<'_>) -> Result<Timestamp, Error> {
    let before = deps.store.uptime().await?;
    let now = Uptime::checked(before.as_ref(), deps.clock.now());
    if before.is_some_and(|before| before.since != now.since) {
        tracing::warn!("Control plane was down; liveness timers restarted at {}", now.since);
    }
    deps.store.put_uptime(&now).await?;
    Ok(now.since)
}
