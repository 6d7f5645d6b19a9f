//! Tickets: what people want done.

use super::{Call, Handler};
use app::Error;
use bytes::Bytes;
use http::Response;

/// `POST /api/v1/tickets`.
pub const CREATE: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tickets`.
pub const LIST: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tickets/{id}`.
pub const GET: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tickets/{id}/events`.
pub const EVENTS: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tickets/{id}/transition`.
pub const TRANSITION: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tickets/{id}/approve`.
pub const APPROVE: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tickets/{id}/reject`.
pub const REJECT: Handler = |call| Box::pin(missing(call));

async fn missing(call: Call) -> Result<Response<Bytes>, Error> {
    drop(call);
    Err(Error::Internal("not built yet".into()))
}
