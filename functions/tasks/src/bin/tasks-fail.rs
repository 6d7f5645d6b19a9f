//! `POST /api/v1/tasks/{id}/fail`: a try at a task has failed.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-fail")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
