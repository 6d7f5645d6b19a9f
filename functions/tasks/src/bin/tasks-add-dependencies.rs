//! `POST /api/v1/tasks/{id}/dependencies`: a task waits for more.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-add-dependencies")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
