//! How sandboxes are doing.

use super::{Call, Handler};
use app::Error;
use bytes::Bytes;
use http::Response;

/// `GET /api/v1/monitoring/status`.
pub const STATUS: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/sandboxes/{id}/phase-status`.
pub const PHASE: Handler = |call| Box::pin(missing(call));

async fn missing(call: Call) -> Result<Response<Bytes>, Error> {
    drop(call);
    Err(Error::Internal("not built yet".into()))
}
