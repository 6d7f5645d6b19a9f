//! `POST /api/v1/tickets/{id}/reject`: a ticket may not be worked on.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tickets-reject")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
