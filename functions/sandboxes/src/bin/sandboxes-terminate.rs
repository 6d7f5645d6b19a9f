//! `DELETE /api/v1/sandboxes/{id}`: a sandbox ends, and its mailbox with it.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-terminate")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
