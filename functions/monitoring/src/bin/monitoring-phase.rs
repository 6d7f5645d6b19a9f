//! `GET /api/v1/sandboxes/{id}/phase-status`: how far a sandbox is.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("monitoring-phase")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
