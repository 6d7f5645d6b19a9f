//! `DELETE /api/v1/tasks/{id}/dependencies/{dependency_id}`: a task waits for less.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-remove-dependency")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
