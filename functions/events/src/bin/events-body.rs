//! `GET /api/v1/sandboxes/{id}/events/{seq}/body`: the full data of one event.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-body")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
