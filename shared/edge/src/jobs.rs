//! Messages on the queue of jobs.

use crate::plane::Plane;
use app::{Error, reconcile, sockets, tasks};
use contract::jobs::Job;

/// Does one job. A repeat does nothing more.
pub async fn run(plane: &Plane, message: &str) -> Result<(), Error> {
    let job = Job::decode(message).map_err(|error| Error::Internal(Box::new(error)))?;
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
            let make_token = |sandbox: &_, generation| plane.worker_token(sandbox, generation);
            reconcile::sandbox::run(plane.hands(&make_token)?, sandbox_id).await?;
        }
        Job::ReconcileTask { task_id } => {
            reconcile::task::run(plane.orchestration()?, task_id).await?;
        }
        Job::ReconcileTicket { ticket_id } => {
            reconcile::ticket::run(plane.orchestration()?, ticket_id).await?;
        }
    }
    Ok(())
}
