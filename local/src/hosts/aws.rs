//! Serves the in-process AWS on a port, for SDK clients in other processes such as `cargo lambda watch`.
//!
//! The access key grants full access; signatures are not verified. It listens on loopback only.

use crate::aws::{Aws, Reply};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use edge::guard::Guard;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Served {
    pub aws: Arc<Aws>,
    pub access_key: String,
}

pub fn router(served: Served) -> Router {
    Router::new().fallback(handle).with_state(served)
}

/// The limit of DynamoDB.
const MAX_BYTES: usize = 16 * 1024 * 1024;

async fn handle(State(served): State<Served>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if !served.authorises(&head.headers) {
        return plain(
            StatusCode::FORBIDDEN,
            r#"{"__type":"AccessDeniedException","message":"unknown access key"}"#,
        );
    }
    let Ok(body) = to_bytes(body, MAX_BYTES).await else {
        return plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            r#"{"__type":"ValidationException","message":"too large"}"#,
        );
    };
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    match served.aws.call(target, head.method.as_str(), &head.uri.to_string(), &body).await {
        Ok(reply) => {
            let mut response = Response::new(Body::from(reply.body));
            *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let json = HeaderValue::from_static("application/x-amz-json-1.0");
            response.headers_mut().insert(http::header::CONTENT_TYPE, json);
            if let Some(error) = reply.query_error {
                response.headers_mut().insert(Reply::QUERY_ERROR, HeaderValue::from_static(error));
            }
            response
        }
        Err(_) => plain(StatusCode::BAD_GATEWAY, "injected connection failure"),
    }
}

impl Served {
    fn authorises(&self, headers: &HeaderMap) -> bool {
        let guard = Guard { hosts: Some(Vec::new()), origins: Vec::new() };
        let signed_by = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let credential = format!("Credential={}/", self.access_key);
        guard.check(headers).is_ok() && signed_by.is_some_and(|value| value.contains(&credential))
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::Durability;
    use tempfile::TempDir;

    #[tokio::test]
    async fn queue_error_carries_the_query_error_header() {
        let data = TempDir::new().unwrap();
        let (aws, _feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let served = Served { aws: Arc::new(aws), access_key: "key".into() };
        let request = Request::builder()
            .header("host", "127.0.0.1")
            .header(AUTHORIZATION, "AWS4-HMAC-SHA256 Credential=key/")
            .header("x-amz-target", "AmazonSQS.DeleteQueue")
            .body(Body::from(r#"{"QueueUrl": "http://sqs.local/missing.fifo"}"#))
            .unwrap();
        let response = handle(State(served), request).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let error = response.headers()["x-amzn-query-error"].to_str().unwrap();
        assert_eq!(error, "AWS.SimpleQueueService.NonExistentQueue;Sender");
    }
}
