//! Receives a webhook of a code host: enqueues a job for each pull request that it names.

use crate::error::Error;
use crate::{Clock, reconcile};
use contract::jobs::Job;
use contract::webhooks::Changed;
use domain::OrgId;
use store::{JobQueue, Store};

/// The variable with the secret of GitHub's webhooks.
pub const GITHUB_SECRET: &str = "GITHUB_WEBHOOK_SECRET";

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub orchestration_jobs: &'a JobQueue,
    pub clock: &'a dyn Clock,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The name of the code host.
    pub sender: &'static str,
    /// Identifies the webhook.
    pub delivery: String,
    /// The org whose secret has signed it; `None` if it is that of every org.
    pub org: Option<OrgId>,
    pub changed: Changed,
}

pub type Outcome = ();

/// Idempotent by the id of the delivery. That is recorded after the jobs, so a failure loses none, and a repeated job
/// changes nothing.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { sender, delivery, org, changed } = command;
    if changed.numbers.is_empty() || deps.store.has_delivery(sender, &delivery).await? {
        return Ok(());
    }
    let at = deps.clock.now();
    for number in changed.numbers {
        let (repository, org) = (changed.repository.clone(), org.clone());
        let job = Job::PullRequestChanged { repository, number, org, at };
        reconcile::jobs::send(deps.orchestration_jobs, &job).await?;
    }
    deps.store.put_delivery(sender, &delivery, at).await?;
    Ok(())
}
