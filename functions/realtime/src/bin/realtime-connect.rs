//! `$connect`: a socket opens.

use lambda_host::{Error, configure, wire, ws};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("realtime-connect")?;
    let plane = wire(&config).await?;
    ws(plane, config.function).await
}
