//! Every minute: the plane is alive. An alarm waits for it.

use lambda_host::{Error, configure, tick, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("platform-check")?;
    let plane = wire(&config).await?;
    tick(plane, config.function).await
}
