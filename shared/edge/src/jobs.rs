//! Messages on the queue of jobs.

use crate::plane::Plane;
use app::{Error, dispatch, expire_socket, tend_sandbox, tend_task, tend_ticket};
use contract::jobs::Job;

/// Does one job. A repeat does nothing more.
pub async fn run(plane: &Plane, message: &str) -> Result<(), Error> {
    let job = Job::decode(message).map_err(|error| Error::Internal(Box::new(error)))?;
    match job {
        Job::ExpireSocket { connection_id } => {
            let deps = expire_socket::Deps { store: &plane.store, push: plane.push()? };
            let command = expire_socket::Command { connection: connection_id };
            expire_socket::run(deps, command).await?;
        }
        Job::Dispatch { org } => {
            dispatch::run(plane.orchestration()?, org).await?;
        }
        Job::TendSandbox { sandbox_id } => {
            let make_token = |sandbox: &_, generation| plane.worker_token(sandbox, generation);
            tend_sandbox::run(plane.hands(&make_token)?, sandbox_id).await?;
        }
        Job::TendTask { task_id } => {
            tend_task::run(plane.orchestration()?, task_id).await?;
        }
        Job::TendTicket { ticket_id } => {
            tend_ticket::run(plane.orchestration()?, ticket_id).await?;
        }
    }
    Ok(())
}
