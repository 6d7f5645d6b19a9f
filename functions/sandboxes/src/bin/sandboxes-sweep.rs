//! Every minute: asks for what is due and was not asked for. Any job may be lost.

use lambda_host::{Error, configure, tick, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-sweep")?;
    let plane = wire(&config).await?;
    tick(plane, config.function).await
}
