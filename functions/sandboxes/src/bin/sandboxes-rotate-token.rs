//! `POST /api/v1/sandboxes/{id}/token`: a new worker token; the old ones end.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-rotate-token")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
