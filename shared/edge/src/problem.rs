//! Converts failures to problem+json and logs them, once.

use crate::http::REQUEST_ID;
use app::Error;
use app::error::chain;
use bytes::Bytes;
use contract::problem::{MEDIA_TYPE, Problem};
use contract::{BadInput, ProblemCode};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

/// A refusal by the edge, before any use case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub code: ProblemCode,
    /// A sentence for people.
    pub detail: &'static str,
}

impl Refusal {
    pub fn response(self, request_id: &str) -> Response<Bytes> {
        respond(problem(self.code, self.detail.to_owned(), request_id), None)
    }
}

/// Logs the failure of a use case and returns the response.
pub fn response(error: &Error, request_id: &str) -> Response<Bytes> {
    log(error, request_id);
    let mut problem = problem(code_of(error), error.to_string(), request_id);
    match error {
        Error::BadInput(BadInput::Invalid(invalid) | BadInput::TooLarge(invalid)) => {
            problem.field = Some(invalid.field.clone());
            problem.detail = format!("{}: {}.", invalid.field, invalid.reason);
        }
        Error::Conflict { facts, .. } => problem.facts = facts.clone(),
        _ => {}
    }
    let retry_after = match error {
        Error::RateLimited { retry_after_secs, .. } => Some(*retry_after_secs),
        Error::Unavailable(_) | Error::CodeHostUnavailable(_) => Some(1),
        _ => None,
    };
    respond(problem, retry_after)
}

pub fn code_of(error: &Error) -> ProblemCode {
    match error {
        Error::BadInput(BadInput::Malformed(_)) => ProblemCode::Malformed,
        Error::BadInput(BadInput::Invalid(_)) => ProblemCode::Invalid,
        Error::BadInput(BadInput::TooLarge(_)) => ProblemCode::TooLarge,
        Error::Unauthorized(_) => ProblemCode::Unauthorized,
        Error::Forbidden(_) => ProblemCode::Forbidden,
        Error::NotFound(_) => ProblemCode::NotFound,
        Error::Conflict { code, .. } => *code,
        Error::RateLimited { .. } => ProblemCode::RateLimited,
        Error::CodeHostUnavailable(_) => ProblemCode::CodeHostUnavailable,
        Error::Unavailable(_) => ProblemCode::Unavailable,
        Error::Internal(_) => ProblemCode::Internal,
    }
}

/// The causes are for the log only, never for the response.
pub(crate) fn log(error: &Error, request_id: &str) {
    match error {
        Error::Internal(_) => {
            tracing::error!("Request {request_id} failed: {}", chain(error));
        }
        Error::Unavailable(_) | Error::CodeHostUnavailable(_) => {
            tracing::warn!("Request {request_id} failed and should be retried: {}", chain(error));
        }
        _ => {}
    }
}

fn problem(code: ProblemCode, detail: String, request_id: &str) -> Problem {
    let status = StatusCode::from_u16(code.status()).expect("the table of codes has valid statuses");
    Problem {
        kind: format!("urn:sunaba:problem:{}", code.as_str()),
        title: status.canonical_reason().unwrap_or("Error").to_owned(),
        status: status.as_u16(),
        code: code.as_str().to_owned(),
        detail,
        field: None,
        request_id: request_id.to_owned(),
        facts: serde_json::Map::new(),
    }
}

fn respond(problem: Problem, retry_after_secs: Option<u64>) -> Response<Bytes> {
    let body = serde_json::to_vec(&problem).expect("a problem serializes");
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() =
        StatusCode::from_u16(problem.status).expect("a problem is created from a valid status");
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
