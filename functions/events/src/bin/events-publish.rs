//! The table's stream: tells the account's event bus of turns in the lives of sandboxes, tasks and tickets.

use lambda_host::{Error, configure, records, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-publish")?;
    let plane = wire(&config).await?;
    records(plane, config.function).await
}
