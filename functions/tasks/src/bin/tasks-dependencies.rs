//! `GET /api/v1/tasks/{id}/dependencies`: what a task waits for, and what waits for it.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-dependencies")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
