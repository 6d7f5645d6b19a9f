//! `GET /api/v1/sandboxes/{id}/messages/history`: what was said, newest first, and how far it has come.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("messages-history")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
