//! The queue of work: gives tasks their sandboxes, makes those, watches them, removes them.

use lambda_host::{Error, configure, jobs, providers};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sandboxes-dispatch")?;
    let plane = providers::wire(&config).await?;
    jobs(plane, config.function).await
}
