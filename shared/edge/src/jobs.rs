//! Jobs from the SQS queues.

use crate::plane::Plane;
use crate::spans;
use app::{Error, feedback, messages, reconcile, sockets, tasks};
use contract::jobs::Job;
use tracing::Instrument;

/// Runs one job. Idempotent: SQS delivers at least once.
pub async fn run(plane: &Plane, message_id: &str, body: &str) -> Result<(), Error> {
    perform(plane, body).instrument(spans::job(message_id)).await
}

async fn perform(plane: &Plane, body: &str) -> Result<(), Error> {
    let job = Job::decode(body).map_err(|error| Error::Internal(Box::new(error)))?;
    match job {
        Job::ExpireSocket { connection_id } => {
            let deps = sockets::expire::Deps { store: &plane.store, push: plane.push()? };
            let command = sockets::expire::Command { connection: connection_id };
            sockets::expire::run(deps, command).await?;
        }
        Job::Dispatch { org } => {
            tasks::dispatch::run(plane.orchestration()?, org).await?;
        }
        Job::ReconcileSandbox { sandbox_id } => {
            let issue_token = |sandbox: &_, generation| plane.worker_token(sandbox, generation);
            reconcile::sandbox::run(plane.reconcile_deps(&issue_token)?, sandbox_id).await?;
        }
        Job::ReconcileTask { task_id } => {
            reconcile::task::run(plane.orchestration()?, task_id).await?;
        }
        Job::ReconcileTicket { ticket_id } => {
            let ticket = reconcile::ticket::run(plane.orchestration()?, ticket_id.clone()).await?;
            let merge = ticket.and_then(|ticket| ticket.merge);
            if !merge.is_some_and(|merge| merge.is_running()) {
                return Ok(());
            }
            let (base, code_hosts) = (plane.orchestration()?, plane.code_hosts()?);
            reconcile::ticket_merge::run(reconcile::ticket_merge::Deps { base, code_hosts }, ticket_id)
                .await?;
        }
        Job::ReadFeedback { task_id } => {
            let command = feedback::read::Command { task: task_id, changed_at: None };
            feedback::read::run(plane.feedback_deps()?, command).await?;
        }
        Job::PullRequestChanged { repository, number, org, at } => {
            let command = feedback::of_pull_request::Command { repository, number, org, changed_at: at };
            feedback::of_pull_request::run(plane.feedback_deps()?, command).await?;
        }
        Job::EnqueueMessage { sandbox_id, message_id, failures } => {
            let deps = messages::send::Deps {
                messages: plane.message_deps()?,
                orchestration_jobs: plane.orchestration_jobs()?,
            };
            messages::send::retry(deps, &sandbox_id, &message_id, failures).await?;
        }
    }
    Ok(())
}
