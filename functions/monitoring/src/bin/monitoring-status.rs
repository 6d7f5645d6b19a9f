//! `GET /api/v1/monitoring/status`: how the sandboxes of an org do.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("monitoring-status")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
