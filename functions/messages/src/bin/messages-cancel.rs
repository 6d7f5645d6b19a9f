//! `POST /api/v1/sandboxes/{id}/messages/{message_id}/cancel`: takes a message back.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("messages-cancel")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
