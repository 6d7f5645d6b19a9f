//! `GET /api/v1/tickets`: the tickets of an org, newest first.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-list")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
