//! `GET /api/v1/sandboxes/{id}/task`: the task that a sandbox works on.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-of-sandbox")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
