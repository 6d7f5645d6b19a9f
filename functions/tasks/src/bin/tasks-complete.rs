//! `POST /api/v1/sandboxes/{id}/task-complete`: a worker says that its task is done.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-complete")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
