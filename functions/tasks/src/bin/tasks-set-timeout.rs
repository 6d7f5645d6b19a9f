//! `POST /api/v1/tasks/{id}/set-timeout`: how long a try may take.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-set-timeout")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
