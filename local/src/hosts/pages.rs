//! The console's pages. As CloudFront has it on AWS (`infra/console.yaml`): everything outside of `/api/` is a file or,
//! since the console finds its own way from there, `index.html`.

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
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

/// What a page may load and do. Styles may be inline, because React libraries set them so; frames show what an agent
/// serves, wherever that is.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src http: https:; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'none'; manifest-src 'self'";

/// Their names hold a digest of what is in them.
const ASSETS: &str = "/assets/";
const INDEX: &str = "/index.html";
const NOT_BUILT: &str = include_str!("not_built.html");

/// What a browser gets at a path; `None` if the path is not the console's, or nobody's.
pub fn answer(console: &Console, path: &str, headers: &HeaderMap) -> Option<Response> {
    let path = unescape(path)?;
    if path.starts_with("/api/") || !is_plain(&path) {
        return None;
    }
    let file = console.file(&path).map(|file| (file, path.as_str()));
    // Without its file an asset is nothing: a page in its place would be taken for a broken script.
    if path.starts_with(ASSETS) && file.is_none() {
        return None;
    }
    match file.or_else(|| console.file(INDEX).map(|file| (file, INDEX))) {
        Some((file, name)) => Some(show(file, name, headers)),
        None => Some(not_built()),
    }
}

/// Whether it is a path within a site. What starts with a dot is a way out of it, or nobody's business.
fn is_plain(path: &str) -> bool {
    let is_part = |part: &str| !part.starts_with('.') && !part.contains(['\\', '\0']);
    path.starts_with('/') && path.split('/').all(is_part)
}

/// Undoes `%41`; `None` for what cannot be undone.
fn unescape(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let value =
                    |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
                bytes.push(value(*high)? * 16 + value(*low)?);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn show(file: File, name: &str, headers: &HeaderMap) -> Response {
    // Weak: it is the same before and after gzip.
    let mut hasher = DefaultHasher::new();
    file.bytes.hash(&mut hasher);
    let tag = format!("W/\"{:016x}\"", hasher.finish());
    let lasting = if name.starts_with(ASSETS) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let is_packed = file.is_gzip && takes_gzip(headers);
    let mut response = match (is_known, is_packed || !file.is_gzip) {
        (true, _) => page(StatusCode::NOT_MODIFIED, Bytes::new()),
        (false, true) => page(StatusCode::OK, file.bytes),
        (false, false) => page(StatusCode::OK, unpack(&file.bytes)),
    };
    let mut set = |name: HeaderName, value: &str| {
        response.headers_mut().insert(name, HeaderValue::from_str(value).expect("our own headers are plain"));
    };
    set(ETAG, &tag);
    set(CACHE_CONTROL, lasting);
    set(VARY, "accept-encoding");
    set(CONTENT_TYPE, content_type(name));
    if is_packed && !is_known {
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

/// With what every page is told.
fn page(status: StatusCode, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Paths hold ids of sandboxes, and a link may hold a token.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        matches!(name.trim(), "gzip" | "*") && !is_refused
    })
}

fn unpack(packed: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    GzDecoder::new(packed)
        .read_to_end(&mut bytes)
        .expect("what was packed when this was built can be unpacked");
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
    fn gzip_is_for_those_who_take_it() {
        for (accepted, taken) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&accepting(accepted)), taken, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_packed_file_is_the_same_either_way_and_once() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"<p>hello</p>").unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        let file = || File { bytes: packed.clone(), is_gzip: true };
        let body =
            async |response: Response| axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        let as_it_is = show(file(), INDEX, &accepting("gzip"));
        assert_eq!(as_it_is.headers()[CONTENT_ENCODING], "gzip");
        let tag = as_it_is.headers()[ETAG].clone();
        assert_eq!(body(as_it_is).await, packed);
        let plain = show(file(), INDEX, &accepting("identity"));
        assert!(plain.headers().get(CONTENT_ENCODING).is_none());
        assert_eq!(plain.headers()[ETAG], tag);
        assert_eq!(body(plain).await, "<p>hello</p>");
        let known = show(file(), INDEX, &HeaderMap::from_iter([(IF_NONE_MATCH, tag)]));
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert!(body(known).await.is_empty());
    }

    #[test]
    fn odd_escapes_are_nobodys_path() {
        assert_eq!(unescape("/a%20b").as_deref(), Some("/a b"));
        for odd in ["/%", "/%4", "/%zz", "/%ff", "/%+1"] {
            assert_eq!(unescape(odd).filter(|path| is_plain(path)), None, "{odd}");
        }
    }
}
