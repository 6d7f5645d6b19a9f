//! Requests: to `edge::http::dispatch`, except for sockets and the page.

use super::ws::{self, Sockets};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use bytes::Bytes;
use contract::limits::MAX_BODY_BYTES;
use edge::Plane;
use edge::http::{TOO_LARGE, dispatch, request_id};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, Method};
use std::sync::Arc;

/// What the router needs.
#[derive(Debug, Clone)]
pub struct Web {
    /// The plane.
    pub plane: Arc<Plane>,
    /// Where sockets go.
    pub sockets: Sockets,
}

/// Everything that this process answers to.
pub fn router(web: Web) -> Router {
    Router::new().fallback(answer).with_state(web)
}

const PAGE: &str = include_str!("../page.html");

async fn answer(State(web): State<Web>, request: Request) -> Response {
    let path = request.uri().path();
    if matches!(*request.method(), Method::GET | Method::HEAD) && path == "/" {
        return page();
    }
    let (mut head, body) = request.into_parts();
    if edge::ws::is_socket_path(head.uri.path())
        && let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut head, &()).await
    {
        return ws::open(web.sockets, upgrade, head).await;
    }
    let id = request_id(&head.headers);
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return TOO_LARGE.response(&id).map(Body::from);
    };
    dispatch(&web.plane, http::Request::from_parts(head, body)).await.map(Body::from)
}

fn page() -> Response {
    let mut response = Response::new(Body::from(Bytes::from_static(PAGE.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
             frame-ancestors 'none'; base-uri 'none'",
        ),
    );
    response
}
