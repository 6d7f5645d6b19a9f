//! `GET /api/v1/tasks`: the tasks of an org, of a ticket or of a sandbox.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-list")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
