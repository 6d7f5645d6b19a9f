//! Every five minutes: removes what providers have and nobody needs, and notices what they have lost.

use lambda_host::{Error, configure, providers, tick};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-compare")?;
    let plane = providers::wire(&config).await?;
    tick(plane, config.function).await
}
