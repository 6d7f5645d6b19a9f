//! Takes over from a process that has died, where there is never more than one: what it was at is let go of, so that
//! nobody waits until it would have; and nobody is blamed for a silence that began while nobody listened.
//!
//! Deliberately absent: anything else. What is due is found by the sweep, now that it may be done.

use crate::error::Error;
use crate::orchestration::Deps;
use crate::reconcile;
use domain::uptime::Uptime;
use domain::{Entity, SandboxId};
use store::keys::Watched;

/// How many sandboxes were looked at.
pub type Outcome = usize;

/// How many are looked at between two calls of the table.
const AT_ONCE: usize = 100;

/// A repeat finds nothing. Only for whoever knows that no other process tends sandboxes.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    deps.store.put_uptime(&Uptime::from_now(deps.clock.now())).await?;
    let (mut after, mut checked_at) = (None, 0);
    loop {
        let page = deps.store.watched(after, AT_ONCE).await?;
        let sandboxes: Vec<SandboxId> = page
            .watched
            .into_iter()
            .filter_map(|one| match one {
                Watched::Entity(Entity::Sandbox(id)) => Some(id),
                _ => None,
            })
            .collect();
        for sandbox in &sandboxes {
            reconcile::sandbox::let_go(deps, sandbox, None).await?;
        }
        checked_at += sandboxes.len();
        after = page.next;
        if after.is_none() {
            return Ok(checked_at);
        }
    }
}
