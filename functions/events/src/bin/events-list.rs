//! `GET /api/v1/sandboxes/{id}/events`: a page of the log.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-list")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
