//! `GET /api/v1/sandboxes/{id}`: one sandbox.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-get")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
