//! `POST /api/v1/sandboxes/{id}/events`: a worker tells what its agent does.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-ingest")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
