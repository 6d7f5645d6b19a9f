//! `POST /api/v1/sandboxes`: a sandbox becomes known and its worker gets a token.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-register")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
