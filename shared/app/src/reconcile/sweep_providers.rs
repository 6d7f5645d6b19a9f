//! Compares what providers have with what the plane knows: removes what nobody knows any more, and notices what is gone,
//! or has ended without a word.

use crate::error::Error;
use crate::orchestration::{self, Providers};
use crate::reconcile;
use domain::attempt::Stage;
use domain::breaker::Allow;
use domain::{Entity, Sandbox, SandboxId};
use providers::SandboxProvider;
use std::collections::BTreeSet;
use std::sync::Arc;
use store::keys::Watched;

/// What it touches. It makes no sandbox, and so no token.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads what the plane knows, and writes what is lost.
    pub orchestration: orchestration::Deps<'a>,
    /// Those who make sandboxes.
    pub providers: &'a Providers,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Sandboxes at providers that the plane does not know, or is done with.
    pub orphans: usize,
    /// Sandboxes of the plane that their provider does not have, or whose worker has ended.
    pub lost: usize,
}

/// How many are looked at between two calls of the table.
const AT_ONCE: usize = 100;

/// A repeat finds the rest. A provider that does not answer is left for the next time.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let now = deps.orchestration.clock.now();
    for provider in deps.providers.all() {
        if let Allow::No { .. } = deps.orchestration.store.breaker(provider.name()).await?.allows(now) {
            continue;
        }
        // What is made from here on is known to the table before it is at the provider, and so is never an orphan.
        match provider.list().await {
            Ok(listed) => {
                let names: BTreeSet<SandboxId> = listed.into_iter().map(|listed| listed.name).collect();
                let found = look_at_each(deps, provider, &names).await?;
                outcome.orphans += found.orphans;
                outcome.lost += found.lost;
                outcome.lost += notice_lost(deps, provider, &names).await?;
            }
            Err(failure) => tracing::warn!("Could not list the sandboxes of {}: {failure}", provider.name()),
        }
    }
    Ok(outcome)
}

/// Removes those that nobody needs, and notices those whose worker has ended.
async fn look_at_each(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    names: &BTreeSet<SandboxId>,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    for name in names {
        let head = deps.orchestration.store.sandbox(name).await?;
        if let Some(head) = head.filter(Sandbox::needs_reconcile) {
            let started = head.activity.spawn.as_ref().is_some_and(|spawn| spawn.stage == Stage::Started);
            // One that has ended has said all that it had to say.
            if started
                && head.activity.outcome.is_none()
                && let Ok(Some(why)) = provider.ended(name).await
            {
                outcome.lost += 1;
                reconcile::sandbox::lost(deps.orchestration, deps.providers, name, Some(&why)).await?;
            }
            continue;
        }
        outcome.orphans += 1;
        tracing::warn!(sandbox.id = %name, "Removing sandbox {name} at {}, which nobody needs", provider.name());
        if let Err(failure) = provider.destroy(name).await {
            tracing::warn!(sandbox.id = %name, "Could not remove sandbox {name}: {failure}");
        }
    }
    Ok(outcome)
}

async fn notice_lost(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    names: &BTreeSet<SandboxId>,
) -> Result<usize, Error> {
    let (mut after, mut lost) = (None, 0);
    loop {
        let page = deps.orchestration.store.watched(after, AT_ONCE).await?;
        let ids: Vec<SandboxId> = page
            .watched
            .into_iter()
            .filter_map(|one| match one {
                Watched::Entity(Entity::Sandbox(id)) if !names.contains(&id) => Some(id),
                _ => None,
            })
            .collect();
        for head in deps.orchestration.store.sandboxes_by_id(&ids).await? {
            let is_its = head.assignment.as_ref().is_some_and(|its| its.provider == provider.name());
            let is_made = head.activity.spawn.as_ref().is_some_and(|spawn| spawn.stage > Stage::Creating);
            if !is_its || !is_made || head.activity.outcome.is_some() {
                continue;
            }
            // It may have been made after the list was: ask for this one.
            if let Ok(None) = provider.find(&head.id).await {
                lost += 1;
                reconcile::sandbox::lost(deps.orchestration, deps.providers, &head.id, None).await?;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(lost);
        }
    }
}
