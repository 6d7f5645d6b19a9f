//! `GET /api/v1/sandboxes/{id}/trajectory`: the log with its heartbeats summed up.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-trajectory")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
