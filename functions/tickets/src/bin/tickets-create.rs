//! `POST /api/v1/tickets`: somebody wants something done; its task is made with it.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-create")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
