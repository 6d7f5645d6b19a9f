//! The queue of jobs: closes sockets whose owners have not said who they are.

use lambda_host::{Error, configure, jobs, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("realtime-expire")?;
    let plane = wire(&config).await?;
    jobs(plane, config.function).await
}
