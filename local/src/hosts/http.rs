//! Requests: to `edge::http::dispatch`, except for sockets and the console's pages.

use super::pages;
use super::ws::{self, Sockets};
use crate::console::Console;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use contract::limits::MAX_BODY_BYTES;
use edge::Plane;
use edge::http::admit;
use http::Method;
use http_body_util::LengthLimitError;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What the router needs.
#[derive(Debug, Clone)]
pub struct Web {
    /// The plane.
    pub plane: Arc<Plane>,
    /// Where sockets go.
    pub sockets: Sockets,
    /// The pages.
    pub console: Arc<Console>,
}

/// Everything that this process answers to.
pub fn router(web: Web) -> Router {
    Router::new().fallback(answer).with_state(web)
}

async fn answer(State(web): State<Web>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    if matches!(head.method, Method::GET | Method::HEAD)
        && let Some(page) = pages::answer(&web.console, head.uri.path(), &head.headers)
    {
        return page;
    }
    if edge::ws::is_socket_path(head.uri.path())
        && let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut head, &()).await
    {
        return ws::open(web.sockets, upgrade, head).await;
    }
    let response = match admit(&web.plane, &head).await {
        Err(refusal) => refusal,
        Ok(admitted) => match timeout(BODY_DEADLINE, to_bytes(body, MAX_BODY_BYTES)).await {
            Ok(Ok(body)) => admitted.answer(body).await,
            Ok(Err(error)) if is_too_large(&error) => admitted.too_large(),
            Ok(Err(_)) | Err(_) => admitted.broken_off(),
        },
    };
    response.map(Body::from)
}

/// Whoever needs longer to send 4 MB does not want to.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

fn is_too_large(error: &axum::Error) -> bool {
    matches!(error.source(), Some(source) if source.is::<LengthLimitError>())
}
