//! `POST /api/v1/sandboxes/{id}/messages`: something is said to a working agent.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("messages-send")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
