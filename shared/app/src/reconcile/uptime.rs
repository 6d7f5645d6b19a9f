//! Whether anybody was listening: asked before a sandbox is given up because nothing was heard of it.

use crate::error::Error;
use crate::orchestration::Deps;
use domain::sandbox::reconcile::{End, Step, next, next_since};
use domain::uptime::{Uptime, since};
use domain::{Sandbox, Task, Timestamp};

/// What is due for a sandbox. Only where it would be given up for its silence, one more item is read.
pub(crate) async fn due(deps: Deps<'_>, head: &Sandbox, task: Option<&Task>) -> Result<Step, Error> {
    let (now, thresholds) = (deps.clock.now(), &deps.orchestration.thresholds);
    let step = next(head, task, thresholds, now);
    match &step {
        Step::End(End { cause, .. }) if cause.is_silence() => {
            let noted = deps.store.uptime().await?;
            let up_since = since(noted.as_ref(), now);
            Ok(next_since(head, task, thresholds, Some(up_since), now))
        }
        _ => Ok(step),
    }
}

/// Notes that everything is looked at now; since when there was no break.
pub(crate) async fn look(deps: Deps<'_>) -> Result<Timestamp, Error> {
    let before = deps.store.uptime().await?;
    let now = Uptime::look(before.as_ref(), deps.clock.now());
    if before.is_some_and(|before| before.since != now.since) {
        tracing::warn!("Nobody listened for a while: all silences are counted from {}", now.since);
    }
    deps.store.put_uptime(&now).await?;
    Ok(now.since)
}
