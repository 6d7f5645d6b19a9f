//! `GET /api/v1/tickets/{id}/events`: what happened to a ticket.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-events")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
