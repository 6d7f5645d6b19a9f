//! `POST /api/v1/tasks/{id}/retry`: a task that failed is tried again.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-retry")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
