//! `POST /api/v1/sandboxes/{id}/sessions/{session_id}/entries`: adds to an agent's own record of its session.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sessions-append")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
