//! `POST /api/v1/tickets/{id}/transition`: a ticket moves along its way.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-transition")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
