//! Takes over from a process that has died, on a host that never runs more than one: releases the leases that it
//! held, and restarts the liveness timers, because heartbeats were lost while the plane was down.
//!
//! Deliberately absent: everything else. The next sweep enqueues what is due.

use crate::error::Error;
use crate::orchestration::Deps;
use crate::reconcile;
use domain::uptime::Uptime;
use domain::{Entity, SandboxId};
use store::keys::Watched;

/// Number of checked sandboxes.
pub type Outcome = usize;

/// Number of entries to read in one call.
const PAGE_SIZE: usize = 100;

/// Idempotent. The caller must know that no other process reconciles sandboxes.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    deps.store.put_uptime(&Uptime::from_now(deps.clock.now())).await?;
    let (mut cursor, mut checked) = (None, 0);
    loop {
        let page = deps.store.watched(cursor.as_ref(), PAGE_SIZE).await?;
        let sandboxes: Vec<SandboxId> = page
            .items
            .into_iter()
            .filter_map(|entry| match entry {
                Watched::Entity(Entity::Sandbox(id)) => Some(id),
                _ => None,
            })
            .collect();
        for sandbox in &sandboxes {
            reconcile::sandbox::release_lease(deps, sandbox, None).await?;
        }
        checked += sandboxes.len();
        cursor = page.next;
        if cursor.is_none() {
            return Ok(checked);
        }
    }
}
