//! Compares the sandboxes at the providers with those of the plane: deletes orphans, and ends sandboxes that are lost
//! or whose worker has exited without a final report.

use crate::error::Error;
use crate::orchestration::{self, Providers};
use crate::reconcile;
use domain::attempt::Stage;
use domain::breaker::Allow;
use domain::{Entity, Sandbox, SandboxId};
use providers::SandboxProvider;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use store::keys::Watched;

/// No sandbox is provisioned here, so no tokens are issued.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    pub providers: &'a Providers,
}

impl<'a> Deref for Deps<'a> {
    type Target = orchestration::Deps<'a>;

    fn deref(&self) -> &orchestration::Deps<'a> {
        &self.base
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Sandboxes at providers that the plane does not know, or has released.
    pub orphans: usize,
    /// Sandboxes of the plane that do not exist at their provider, or whose worker has exited.
    pub lost: usize,
}

/// Number of entries to read in one call.
const PAGE_SIZE: usize = 100;

/// Idempotent. A provider that is unavailable is skipped until the next sweep.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let now = deps.clock.now();
    for provider in deps.providers.all() {
        if let Allow::No { .. } = deps.store.breaker(provider.name()).await?.allows(now) {
            continue;
        }
        // A sandbox is recorded before it is created at the provider, so a new one is never taken for an orphan.
        match provider.list().await {
            Ok(listed) => {
                let names: BTreeSet<SandboxId> = listed.into_iter().map(|listed| listed.name).collect();
                let found = check_listed(deps, provider, &names).await?;
                outcome.orphans += found.orphans;
                outcome.lost += found.lost;
                outcome.lost += check_missing(deps, provider, &names).await?;
            }
            Err(failure) => tracing::warn!("Could not list the sandboxes of {}: {failure}", provider.name()),
        }
    }
    Ok(outcome)
}

/// Deletes orphans, and ends the sandboxes whose worker has exited.
async fn check_listed(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    names: &BTreeSet<SandboxId>,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    for name in names {
        let sandbox = deps.store.sandbox(name).await?;
        if let Some(sandbox) = sandbox.filter(Sandbox::needs_reconcile) {
            let started = sandbox
                .activity
                .provisioning
                .as_ref()
                .is_some_and(|provisioning| provisioning.stage == Stage::Started);
            // A sandbox with an outcome needs no check: its worker is expected to exit.
            if started
                && sandbox.activity.outcome.is_none()
                && let Ok(Some(reason)) = provider.worker_exit(name).await
            {
                outcome.lost += 1;
                reconcile::sandbox::lost(*deps, deps.providers, name, Some(&reason)).await?;
            }
            continue;
        }
        outcome.orphans += 1;
        tracing::warn!(sandbox.id = %name, "Deleting orphaned sandbox {name} at {}", provider.name());
        if let Err(failure) = provider.destroy(name).await {
            tracing::warn!(sandbox.id = %name, "Could not delete sandbox {name}: {failure}");
        }
    }
    Ok(outcome)
}

/// Ends the sandboxes that their provider does not have.
async fn check_missing(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    names: &BTreeSet<SandboxId>,
) -> Result<usize, Error> {
    let (mut cursor, mut lost) = (None, 0);
    loop {
        let page = deps.store.watched(cursor.as_ref(), PAGE_SIZE).await?;
        let ids: Vec<SandboxId> = page
            .items
            .into_iter()
            .filter_map(|entry| match entry {
                Watched::Entity(Entity::Sandbox(id)) if !names.contains(&id) => Some(id),
                _ => None,
            })
            .collect();
        for sandbox in deps.store.sandboxes_by_id(&ids).await? {
            let is_here =
                sandbox.assignment.as_ref().is_some_and(|assignment| assignment.provider == provider.name());
            let is_created = sandbox
                .activity
                .provisioning
                .as_ref()
                .is_some_and(|provisioning| provisioning.stage > Stage::Creating);
            if !is_here || !is_created || sandbox.activity.outcome.is_some() {
                continue;
            }
            // It may have been created after the list was read, so look it up again.
            if let Ok(None) = provider.find(&sandbox.id).await {
                lost += 1;
                reconcile::sandbox::lost(*deps, deps.providers, &sandbox.id, None).await?;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(lost);
        }
    }
}
