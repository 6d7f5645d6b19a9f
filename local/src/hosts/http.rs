//! HTTP requests: `edge::http::admit`, sockets, sign-in, and the console's pages.

use super::ws::{self, Sockets};
use super::{pages, sign_in};
use crate::console::Console;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use bytes::Bytes;
use edge::Plane;
use edge::auth::SignInCodes;
use edge::http::admit;
use http::Method;
use http_body_util::LengthLimitError;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, Clone)]
pub struct Web {
    pub plane: Arc<Plane>,
    pub sockets: Sockets,
    pub console: Arc<Console>,
    /// `None` without authentication.
    pub codes: Option<Arc<SignInCodes>>,
}

/// Serves everything of this process.
pub fn router(web: Web) -> Router {
    Router::new().fallback(handle).with_state(web)
}

async fn handle(State(web): State<Web>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    if matches!(head.method, Method::GET | Method::HEAD)
        && let Some(page) = pages::respond(&web.console, &head).await
    {
        return page;
    }
    if edge::ws::is_socket_path(head.uri.path())
        && let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut head, &()).await
    {
        return ws::open(web.sockets, upgrade, head).await;
    }
    if sign_in::is_path(head.uri.path()) {
        return sign_in::respond(&web.plane, web.codes.as_deref(), &head, body).await;
    }
    let response = match admit(&web.plane, &head).await {
        Err(refusal) => refusal,
        Ok(admitted) => match read_body(body, admitted.max_body_bytes()).await {
            Ok(body) => admitted.answer(body).await,
            Err(BodyError::TooLarge) => admitted.too_large(),
            Err(BodyError::Incomplete) => admitted.request_timeout(),
        },
    };
    response.map(Body::from)
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy)]
pub enum BodyError {
    TooLarge,
    /// Or too slow.
    Incomplete,
}

pub async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, BodyError> {
    match timeout(BODY_DEADLINE, to_bytes(body, max_bytes)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_too_large(&error) => Err(BodyError::TooLarge),
        Ok(Err(_)) | Err(_) => Err(BodyError::Incomplete),
    }
}

/// Slow-client cutoff: a body must arrive within this time.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

fn is_too_large(error: &axum::Error) -> bool {
    matches!(error.source(), Some(source) if source.is::<LengthLimitError>())
}
