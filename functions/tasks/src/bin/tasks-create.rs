//! `POST /api/v1/tasks`: something is to be done.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-create")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
