//! Forwards one request to its service.

use super::body::Guarded;
use super::handler::{Body, full};
use super::usage::Counter;
use super::{Endpoint, Endpoints, Refusal, key, paths};
use crate::proxy::strip_hop_by_hop;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

pub(super) async fn respond(server: &Endpoints, request: Request<Incoming>) -> Response<Body> {
    let handled = server.handled.iter().find(|handled| paths::is_below(&handled.prefix, request.uri()));
    if let Some(handled) = handled {
        let (mut head, body) = request.into_parts();
        if !key::replace(std::slice::from_ref(&handled.key), &mut head.headers) {
            return wrong_key();
        }
        key::remove(&mut head.headers);
        let body = body.map_err(Into::into).boxed();
        return handled.handler.respond(Request::from_parts(head, body)).await;
    }
    match forward(&server.endpoints, &server.http, request).await {
        Ok(response) | Err(response) => response,
    }
}

fn wrong_key() -> Response<Body> {
    let why = "this endpoint accepts only the key of its own sandbox";
    problem(StatusCode::UNAUTHORIZED, "authentication_error", why)
}

/// Both results are responses; the second is of the endpoint itself.
async fn forward(
    endpoints: &[Endpoint],
    http: &reqwest::Client,
    request: Request<Incoming>,
) -> Result<Response<Body>, Response<Body>> {
    let (mut head, body) = request.into_parts();
    let found = endpoints.iter().find_map(|endpoint| {
        let url = paths::upstream_url(&endpoint.prefix, &endpoint.upstream, &head.uri)?;
        Some((endpoint, url))
    });
    let (endpoint, url) = found.ok_or_else(|| {
        problem(StatusCode::NOT_FOUND, "not_found_error", "this path belongs to no service of this sandbox")
    })?;
    if !endpoint.keys.is_empty() && !key::replace(&endpoint.keys, &mut head.headers) {
        return Err(wrong_key());
    }
    endpoint.meter.admit().map_err(|refusal| match refusal {
        Refusal::Budget(why) => problem(StatusCode::PAYMENT_REQUIRED, "billing_error", &why),
        Refusal::RateLimit(why) => problem(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", &why),
    })?;
    strip_hop_by_hop(&mut head.headers);
    head.headers.remove(HOST);
    // Keys and counts are searched for in plain bodies.
    head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let sent = http.request(head.method, url).headers(head.headers).body(reqwest::Body::wrap(body)).send();
    let response = sent.await.map_err(|error| {
        // The message of an error may contain a URL, but no header.
        let error = error.without_url();
        tracing::warn!(%error, upstream = %endpoint.upstream, "A service cannot be reached: {error}");
        problem(StatusCode::BAD_GATEWAY, "api_error", "the service cannot be reached by the worker")
    })?;
    if response.status() == StatusCode::UNAUTHORIZED && !endpoint.keys.is_empty() {
        return Err(rejected_key(endpoint));
    }
    Ok(guarded(endpoint, response))
}

/// The service did not accept the real key. Its response is withheld, because some services repeat parts of the key.
fn rejected_key(endpoint: &Endpoint) -> Response<Body> {
    tracing::warn!(upstream = %endpoint.upstream, "A service rejected the key that the worker has for it");
    let why = "the service rejected the key of the operator";
    problem(StatusCode::UNAUTHORIZED, "authentication_error", why)
}

/// The response of the service, without its keys.
fn guarded(endpoint: &Endpoint, response: reqwest::Response) -> Response<Body> {
    let secrets: Vec<String> = endpoint.keys.iter().flat_map(key::Key::secrets).cloned().collect();
    let (mut head, body) = Response::<reqwest::Body>::from(response).into_parts();
    strip_hop_by_hop(&mut head.headers);
    remove_secrets(&mut head.headers, &secrets);
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let counter = Counter::new(endpoint.meter.clone(), content_type.unwrap_or_default());
    let mut response = Response::new(Guarded::new(body, secrets, counter).map_err(Into::into).boxed());
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn remove_secrets(headers: &mut HeaderMap, secrets: &[String]) {
    let has_secret = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        secrets.iter().any(|secret| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()))
    };
    let found: Vec<_> =
        headers.iter().filter(|(_, value)| has_secret(value)).map(|(name, _)| name.clone()).collect();
    for name in found {
        headers.remove(name);
    }
}

/// An error in the shape that the clients of models read.
fn problem(status: StatusCode, kind: &str, why: &str) -> Response<Body> {
    let error = json!({"type": kind, "message": format!("sunaba: {why}")});
    let mut response = Response::new(full(json!({"type": "error", "error": error}).to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
