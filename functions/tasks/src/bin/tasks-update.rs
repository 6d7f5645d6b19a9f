//! `PATCH /api/v1/tasks/{id}`: a task is changed.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-update")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
