//! Messages on the queue of jobs.

use crate::plane::Plane;
use app::{Error, expire_socket};
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
    }
    Ok(())
}
