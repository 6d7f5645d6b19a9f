//! `GET /api/v1/sandboxes/{id}/sessions/{session_id}/entries`: an agent's own record of a session, to go on from.

use lambda_host::{Error, configure, http, wire};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = configure("sessions-read")?;
    let plane = wire(&config).await?;
    http(plane, config.function).await
}
