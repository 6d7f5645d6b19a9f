//! `GET /api/v1/tasks/{id}`: one task.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-get")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
