//! Tasks: the work that tickets are made of.

use super::{Call, Handler};
use app::Error;
use bytes::Bytes;
use http::Response;

/// `POST /api/v1/tasks`.
pub const CREATE: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tasks`.
pub const LIST: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tasks/{id}`.
pub const GET: Handler = |call| Box::pin(missing(call));
/// `PATCH /api/v1/tasks/{id}`.
pub const UPDATE: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tasks/{id}/events`.
pub const EVENTS: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/tasks/{id}/dependencies`.
pub const DEPENDENCIES: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tasks/{id}/dependencies`.
pub const ADD_DEPENDENCIES: Handler = |call| Box::pin(missing(call));
/// `PUT /api/v1/tasks/{id}/dependencies`.
pub const REPLACE_DEPENDENCIES: Handler = |call| Box::pin(missing(call));
/// `DELETE /api/v1/tasks/{id}/dependencies/{dependency_id}`.
pub const REMOVE_DEPENDENCY: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tasks/{id}/fail`.
pub const FAIL: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tasks/{id}/cancel`.
pub const CANCEL: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tasks/{id}/retry`.
pub const RETRY: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/tasks/{id}/set-timeout`.
pub const SET_TIMEOUT: Handler = |call| Box::pin(missing(call));
/// `GET /api/v1/sandboxes/{id}/task`.
pub const OF_SANDBOX: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/sandboxes/{id}/task-complete`.
pub const COMPLETE: Handler = |call| Box::pin(missing(call));
/// `POST /api/v1/sandboxes/{id}/validation-result`.
pub const VALIDATE: Handler = |call| Box::pin(missing(call));

async fn missing(call: Call) -> Result<Response<Bytes>, Error> {
    drop(call);
    Err(Error::Internal("not built yet".into()))
}
