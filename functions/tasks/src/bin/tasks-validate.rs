//! `POST /api/v1/sandboxes/{id}/validation-result`: somebody judges what came of a task.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("tasks-validate")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
