//! Failures become problem+json here, and are logged here, once.

use crate::http::REQUEST_ID;
use app::Error;
use app::error::chain;
use bytes::Bytes;
use contract::BadInput;
use contract::problem::{MEDIA_TYPE, Problem};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

/// A refusal that no use case was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable word.
    pub code: &'static str,
    /// A sentence.
    pub detail: &'static str,
}

impl Refusal {
    /// The answer.
    pub fn response(self, request_id: &str) -> Response<Bytes> {
        respond(problem(self.status, self.code, self.detail.to_owned(), request_id), None)
    }
}

/// The answer to a failed use case.
pub fn response(error: &Error, request_id: &str) -> Response<Bytes> {
    log(error, request_id);
    let (status, code) = status_of(error);
    let mut problem = problem(status, code, error.to_string(), request_id);
    match error {
        Error::BadInput(BadInput::Invalid(wrong) | BadInput::TooLarge(wrong)) => {
            problem.field = Some(wrong.field.clone());
            problem.detail = format!("{}: {}.", wrong.field, wrong.reason);
        }
        Error::Conflict { facts, .. } => problem.facts = facts.clone(),
        _ => {}
    }
    let retry_after = match error {
        Error::RateLimited { retry_after_secs } => Some(*retry_after_secs),
        Error::Unavailable(_) => Some(1),
        _ => None,
    };
    respond(problem, retry_after)
}

/// Status and stable word of a failure.
pub fn status_of(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::BadInput(BadInput::Malformed(_)) => (StatusCode::BAD_REQUEST, "malformed"),
        Error::BadInput(BadInput::Invalid(_)) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        Error::BadInput(BadInput::TooLarge(_)) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Error::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized"),
        Error::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
        Error::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
        Error::Conflict { code, .. } => (StatusCode::CONFLICT, code),
        Error::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        Error::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// The chain of causes is for the log only.
pub(crate) fn log(error: &Error, request_id: &str) {
    match error {
        Error::Internal(_) => {
            tracing::error!(request.id = request_id, "Request {request_id} broke: {}", chain(error));
        }
        Error::Unavailable(_) => {
            tracing::warn!(
                request.id = request_id,
                "Request {request_id} must be repeated: {}",
                chain(error)
            );
        }
        _ => {}
    }
}

fn problem(status: StatusCode, code: &str, detail: String, request_id: &str) -> Problem {
    Problem {
        kind: format!("urn:sunaba:problem:{code}"),
        title: status.canonical_reason().unwrap_or("Error").to_owned(),
        status: status.as_u16(),
        code: code.to_owned(),
        detail,
        field: None,
        request_id: request_id.to_owned(),
        facts: serde_json::Map::new(),
    }
}

fn respond(problem: Problem, retry_after_secs: Option<u64>) -> Response<Bytes> {
    let body = serde_json::to_vec(&problem).expect("a problem serialises");
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(problem.status).expect("a problem is made from a status");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Ok(id) = HeaderValue::from_str(&problem.request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(secs) = retry_after_secs {
        response.headers_mut().insert(RETRY_AFTER, secs.into());
    }
    response
}
