//! `GET /api/v1/tasks/{id}/events`: what happened to a task.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-events")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
