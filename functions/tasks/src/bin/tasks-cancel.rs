//! `POST /api/v1/tasks/{id}/cancel`: a task is called off.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-cancel")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
