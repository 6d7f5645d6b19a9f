//! Documents of the API itself: `cargo xtask gen` writes them, and the program contains them.

use super::endpoint::{empty, ok, text};
use super::{Call, Endpoint};
use app::Error;
use bytes::Bytes;
use contract::query::Parameter;
use domain::JsonObject;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

/// `GET /api/v1/openapi.json`.
pub const OPENAPI: Endpoint =
    Endpoint::new(|call| Box::pin(openapi(call)), &[ok::<JsonObject>(), empty(304)]).headers(&[KNOWN]);
/// `GET /api/v1/reference`.
pub const REFERENCE: Endpoint =
    Endpoint::new(|call| Box::pin(reference(call)), &[text(HTML), empty(304)]).headers(&[KNOWN]);

const KNOWN: Parameter =
    Parameter::text("If-None-Match", "The `ETag` of an earlier response. 304 means that it has not changed.");

const HTML: &str = "text/html; charset=utf-8";
/// The page is text and one style sheet; nothing in it may load or run anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

async fn openapi(call: Call) -> Result<Response<Bytes>, Error> {
    Ok(document(&call, "application/json", include_str!("../../../../docs/openapi.json")))
}

async fn reference(call: Call) -> Result<Response<Bytes>, Error> {
    let mut response = document(&call, HTML, include_str!("../../../../docs/reference.html"));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

/// Caches may keep it for a while, and then ask whether it has changed.
fn document(call: &Call, media_type: &'static str, text: &'static str) -> Response<Bytes> {
    let digest: String = Sha256::digest(text)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{digest}\"");
    let mut response = Response::new(Bytes::new());
    if is_known(&call.headers, &etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Bytes::from_static(text.as_bytes());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&etag).expect("hexadecimal digits are valid"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}

/// Whether the caller has the document with this tag. Tags may be weak: CloudFront weakens those of what it compresses.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
