//! The console's pages. As with CloudFront (`infra/console.yaml`), every path outside of `/api/` is a file or `index.html`,
//! because the console has client-side routing.

use crate::console::{Console, File};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

/// Content security policy. React libraries need inline styles; frames show previews of what an agent serves, on any host.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src http: https:; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'none'; manifest-src 'self'";

/// File names contain a hash of the contents.
const ASSETS: &str = "/assets/";
const INDEX: &str = "/index.html";
const NOT_BUILT: &str = include_str!("not_built.html");

/// The response for a path; `None` if the path is not one of the console.
pub fn respond(console: &Console, path: &str, headers: &HeaderMap) -> Option<Response> {
    let path = percent_decode(path)?;
    if path.starts_with("/api/") || !is_safe(&path) {
        return None;
    }
    let file = console.file(&path).map(|file| (file, path.as_str()));
    // A missing asset is 404: the index page would be parsed as a broken script.
    if path.starts_with(ASSETS) && file.is_none() {
        return None;
    }
    match file.or_else(|| console.file(INDEX).map(|file| (file, INDEX))) {
        Some((file, name)) => Some(serve(file, name, headers)),
        None => Some(not_built()),
    }
}

/// Rejects path traversal and dot files.
fn is_safe(path: &str) -> bool {
    let is_part = |part: &str| !part.starts_with('.') && !part.contains(['\\', '\0']);
    path.starts_with('/') && path.split('/').all(is_part)
}

/// Decodes percent-encoding; `None` if the result is not text. Malformed escapes stay as they are.
fn percent_decode(path: &str) -> Option<String> {
    percent_encoding::percent_decode_str(path).decode_utf8().ok().map(Cow::into_owned)
}

fn serve(file: File, name: &str, headers: &HeaderMap) -> Response {
    // Weak, because it is the same with and without gzip.
    let mut hasher = DefaultHasher::new();
    file.bytes.hash(&mut hasher);
    let tag = format!("W/\"{:016x}\"", hasher.finish());
    let caching = if name.starts_with(ASSETS) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let cached = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_cached = cached.is_some_and(|tags| tags.split(',').any(|cached| cached.trim() == tag));
    let is_compressed = file.is_gzip && accepts_gzip(headers);
    let mut response = match (is_cached, is_compressed || !file.is_gzip) {
        (true, _) => page(StatusCode::NOT_MODIFIED, Bytes::new()),
        (false, true) => page(StatusCode::OK, file.bytes),
        (false, false) => page(StatusCode::OK, decompress(&file.bytes)),
    };
    let mut set = |name: HeaderName, value: &str| {
        response.headers_mut().insert(name, HeaderValue::from_str(value).expect("our own headers are ASCII"));
    };
    set(ETAG, &tag);
    set(CACHE_CONTROL, caching);
    set(VARY, "accept-encoding");
    set(CONTENT_TYPE, content_type(name));
    if is_compressed && !is_cached {
        set(CONTENT_ENCODING, "gzip");
    }
    response
}

fn not_built() -> Response {
    let mut response = page(StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(NOT_BUILT.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds the security headers of every page.
fn page(status: StatusCode, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Paths contain sandbox ids, and a link may contain a token.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        let is_refused = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        matches!(name.trim(), "gzip" | "*") && !is_refused
    })
}

fn decompress(compressed: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut bytes).expect("the build compressed it");
    bytes.into()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn accepting(encoding: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, encoding.parse().unwrap())])
    }

    #[test]
    fn gzip_is_served_only_if_accepted() {
        for (accepted, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(&accepting(accepted)), expected, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn compressed_file_has_one_etag_with_and_without_gzip() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"<p>hello</p>").unwrap();
        let compressed = Bytes::from(encoder.finish().unwrap());
        let file = || File { bytes: compressed.clone(), is_gzip: true };
        let body =
            async |response: Response| axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        let compressed_response = serve(file(), INDEX, &accepting("gzip"));
        assert_eq!(compressed_response.headers()[CONTENT_ENCODING], "gzip");
        let tag = compressed_response.headers()[ETAG].clone();
        assert_eq!(body(compressed_response).await, compressed);
        let plain = serve(file(), INDEX, &accepting("identity"));
        assert!(plain.headers().get(CONTENT_ENCODING).is_none());
        assert_eq!(plain.headers()[ETAG], tag);
        assert_eq!(body(plain).await, "<p>hello</p>");
        let cached = serve(file(), INDEX, &HeaderMap::from_iter([(IF_NONE_MATCH, tag)]));
        assert_eq!(cached.status(), StatusCode::NOT_MODIFIED);
        assert!(body(cached).await.is_empty());
    }

    #[test]
    fn encoded_paths_cannot_leave_the_directory() {
        assert_eq!(percent_decode("/a%20b+c").as_deref(), Some("/a b+c"));
        assert_eq!(percent_decode("/%zz").as_deref(), Some("/%zz"));
        for path in ["/%ff", "/%2e%2e/secret", "/a/%2E%2E%2Fsecret", "/%00", "/a%5Cb", "/%2egit"] {
            assert_eq!(percent_decode(path).filter(|decoded| is_safe(decoded)), None, "{path}");
        }
    }
}
