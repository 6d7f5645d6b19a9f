//! HTTP API, payload format 2.0.

use bytes::Bytes;
use edge::Plane;
use edge::http::SourceIp;
use edge::registry::Function;
use futures_util::future::{BoxFuture, ready};
use http::Response;
use lambda_http::request::{LambdaRequest, RequestContext};
use lambda_http::{Adapter, Body, IntoResponse, Request, RequestExt};
use lambda_runtime::{LambdaEvent, Service, service_fn};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;

/// Passes a request to [`edge::http::dispatch_to`], or to [`edge::http::dispatch`] in a process that serves every route.
pub async fn invoke(
    plane: &Arc<Plane>,
    function: Option<&'static Function>,
    event: LambdaEvent<LambdaRequest>,
) -> Result<impl Serialize + use<>, Infallible> {
    let plane = plane.clone();
    let mut adapter = Adapter::from(service_fn(move |request: Request| {
        let plane = plane.clone();
        async move {
            let source = source_ip(&request);
            let mut request = request.map(bytes_of);
            if let Some(source) = source {
                request.extensions_mut().insert(source);
            }
            let response = match function {
                Some(function) => edge::http::dispatch_to(function, &plane, request).await,
                None => edge::http::dispatch(&plane, request).await,
            };
            Ok(encode(response))
        }
    }));
    adapter.call(event).await
}

/// The address that API Gateway saw: for requests through the console's domain that of CloudFront.
fn source_ip(request: &Request) -> Option<SourceIp> {
    let context = request.request_context_ref()?;
    let RequestContext::ApiGatewayV2(context) = context else { return None };
    context.http.source_ip.as_deref()?.parse().ok().map(SourceIp)
}

fn bytes_of(body: Body) -> Bytes {
    match body {
        Body::Text(text) => Bytes::from(text),
        Body::Binary(bytes) => Bytes::from(bytes),
        _ => Bytes::new(),
    }
}

/// A response whose body is already encoded, as text or base64. (`lambda_http` would encode all JSON as text.)
struct Encoded(Response<Body>);

impl IntoResponse for Encoded {
    fn into_response(self) -> BoxFuture<'static, Response<Body>> {
        Box::pin(ready(self.0))
    }
}

/// Lambda limits a response to 6 MB, in which the body is a JSON string: escaping a body full of quotes doubles it. Base64
/// grows any body by a third.
fn encode(response: Response<Bytes>) -> Encoded {
    Encoded(response.map(|body| {
        let escaped = body.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        match String::from_utf8(body.into()) {
            Ok(text) if escaped <= text.len() / 3 => Body::Text(text),
            Ok(text) => Body::Binary(text.into_bytes()),
            Err(not_utf8) => Body::Binary(not_utf8.into_bytes()),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::limits::{MAX_EVENT_BYTES, MAX_PAGE_BYTES};

    /// Of a request as well as of a response.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
    const LAMBDA_BYTES: usize = 6 * 1024 * 1024;

    #[test]
    fn address_of_the_sender_is_that_of_the_gateways_request() {
        let payload = include_str!("../../../tests/fixtures/lambda/http-get-sandbox.json");
        let request = lambda_http::request::from_str(payload).unwrap();
        let SourceIp(ip) = source_ip(&request).unwrap();
        assert_eq!(ip.to_string(), "203.0.113.7");
    }

    fn encoded_size(text: String) -> usize {
        match encode(Response::new(Bytes::from(text))).0.into_body() {
            Body::Text(text) => serde_json::to_string(&text).unwrap().len(),
            Body::Binary(bytes) => bytes.len().div_ceil(3) * 4,
            _ => 0,
        }
    }

    const PIECES: [&str; 4] = ["x", "\\\"", "{\"a\":\"b\"},", "é"];

    #[test]
    fn largest_pages_fit_into_the_lambda_limit() {
        for piece in PIECES {
            let text = piece.repeat(MAX_PAGE_BYTES / piece.len());
            assert!(encoded_size(text) < LAMBDA_BYTES - 64 * 1024, "{piece}");
        }
    }

    /// The data of an event is returned in one response. A request has more around its body than a response has, so what
    /// has arrived can be returned.
    #[test]
    fn event_data_that_fits_into_a_request_fits_into_a_response() {
        for piece in PIECES {
            let escaped = serde_json::to_string(piece).unwrap().len() - 2;
            let text = piece.repeat(MAX_EVENT_BYTES.min(LAMBDA_BYTES / escaped * piece.len()) / piece.len());
            let request = serde_json::to_string(&text).unwrap().len();
            assert!(request > LAMBDA_BYTES * 9 / 10, "{piece}");
            assert!(encoded_size(text) <= request, "{piece}");
        }
    }
}
