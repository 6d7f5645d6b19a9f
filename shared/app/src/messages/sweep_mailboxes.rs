//! Deletes the queues of mailboxes whose sandbox has ended. A queue is left over if it was created at the moment when
//! its sandbox ended, or if its deletion failed.

use crate::error::Error;
use domain::{Entity, Sandbox};
use std::collections::HashSet;
use store::Store;
use store::keys::Watched;
use store::mailboxes::{Mailboxes, Reply, name_of};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub mailboxes: &'a Mailboxes,
}

/// Number of deleted queues.
pub type Outcome = usize;

/// Number of entries to read in one call.
const PAGE_SIZE: usize = 100;

/// Idempotent. A sandbox is stored before its queues are created, so a queue of a new sandbox is never taken for a
/// leftover.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    // Most queues belong to sandboxes that the plane provisioned. They are known by name, without asking for tags.
    let live = provisioned(deps).await?;
    let (mut cursor, mut deleted) = (None, 0);
    loop {
        let page = deps.mailboxes.queues(cursor.as_deref()).await?;
        for url in page.urls.iter().filter(|url| !live.contains(name_of(url))) {
            if is_leftover(deps, url).await? {
                tracing::info!("Deleting the leftover queue {}", name_of(url));
                deps.mailboxes.remove_queue(url).await?;
                deleted += 1;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(deleted);
        }
    }
}

async fn is_leftover(deps: Deps<'_>, url: &str) -> Result<bool, Error> {
    let owner = match deps.mailboxes.owner(url).await? {
        Reply::Done(Some(owner)) => owner,
        // Deleted meanwhile, or not ours.
        Reply::Done(None) | Reply::NoQueue => return Ok(false),
    };
    let sandbox = deps.store.sandbox(&owner).await?;
    let has_ended = |sandbox: Sandbox| sandbox.status().is_final() && sandbox.activity.waiting == 0;
    Ok(sandbox.is_none_or(has_ended))
}

/// Names of the queues of sandboxes that the plane provisioned and that have not ended.
async fn provisioned(deps: Deps<'_>) -> Result<HashSet<String>, Error> {
    let (mut cursor, mut names) = (None, HashSet::new());
    loop {
        let page = deps.store.watched(cursor.as_ref(), PAGE_SIZE).await?;
        for entry in page.items {
            if let Watched::Entity(Entity::Sandbox(id)) = entry {
                names.extend(deps.mailboxes.queue_names(&id));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(names);
        }
    }
}
