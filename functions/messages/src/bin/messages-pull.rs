//! `GET /api/v1/sandboxes/{id}/messages`: a worker takes what was said, and waits for it if nothing was.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("messages-pull")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
