//! The table's stream: tells sockets of what was stored.

use lambda_host::{Error, configure, records, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("events-broadcast")?;
    let plane = wire(&config).await?;
    records(plane, config.function).await
}
