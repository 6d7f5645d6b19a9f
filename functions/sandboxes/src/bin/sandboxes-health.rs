//! `GET /api/v1/sandboxes/health`: the plane is there.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-health")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
