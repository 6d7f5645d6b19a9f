//! `POST /api/v1/sandboxes/{id}/messages/ack`: a worker says how far messages have come.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("messages-ack")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
