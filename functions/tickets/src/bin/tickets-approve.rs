//! `POST /api/v1/tickets/{id}/approve`: a ticket may be worked on.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-approve")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
