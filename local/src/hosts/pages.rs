//! The console's pages. As with CloudFront (`infra/console.yaml`), every path outside of `/api/` is a file or `index.html`,
//! because the console has client-side routing.

use crate::console::Console;
use axum::body::Body;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use tower::ServiceExt;
use tower_http::compression::Compression;
use tower_http::services::ServeDir;

/// Content security policy. React libraries need inline styles; frames show the links of sandbox providers: a
/// port of this machine, or a page of a service.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src http://127.0.0.1:* https:; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'none'; manifest-src 'self'";

/// File names contain a hash of the contents.
const ASSETS: &str = "/assets/";
const NOT_BUILT: &str = include_str!("not_built.html");

const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const REVALIDATE: &str = "no-cache";

/// The response for a path; `None` if the path is not one of the console.
pub async fn respond(console: &Console, head: &Parts) -> Option<Response> {
    let path = percent_decode_str(head.uri.path()).decode_utf8().ok()?;
    if path.starts_with("/api/") || !is_safe(&path) {
        return None;
    }
    let (mut response, caching) = match serve(console, head.uri.clone(), head).await {
        Some(asset) if path.starts_with(ASSETS) && is_cacheable(asset.status()) => (asset, IMMUTABLE),
        Some(file) => (file, REVALIDATE),
        // A missing asset is 404: the index page would be parsed as a broken script.
        None if path.starts_with(ASSETS) => return None,
        None => match serve(console, Uri::from_static("/index.html"), head).await {
            Some(index) => (index, REVALIDATE),
            None => (not_built(), "no-store"),
        },
    };
    complete(response.headers_mut(), caching);
    Some(response)
}

/// Whether a response is about the contents. An error, such as an invalid range, is about the request.
fn is_cacheable(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

/// Rejects dot files and other paths that are not of a console, such as those with `..`.
fn is_safe(path: &str) -> bool {
    let is_part = |part: &str| !part.starts_with('.') && !part.contains(['\\', '\0']);
    path.starts_with('/') && path.split('/').all(is_part)
}

/// `None` if there is no such file.
async fn serve(console: &Console, uri: Uri, head: &Parts) -> Option<Response> {
    let files = ServeDir::with_backend("", console.clone()).append_index_html_on_directories(false);
    let mut request = Request::new(Body::empty());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = head.headers.clone();
    let Ok(response) = Compression::new(files).oneshot(request).await;
    (response.status() != StatusCode::NOT_FOUND).then(|| response.map(Body::new))
}

fn not_built() -> Response {
    let mut response = Response::new(Body::from(NOT_BUILT));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// Adds the headers of every page.
fn complete(headers: &mut HeaderMap, caching: &'static str) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Paths contain sandbox ids.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    change(headers, CONTENT_TYPE, |kind| kind.starts_with("text/").then(|| format!("{kind}; charset=utf-8")));
    // A strong tag is for one encoding, and `ServeDir` computes it from the plain file.
    if headers.contains_key(CONTENT_ENCODING) {
        change(headers, ETAG, |tag| Some(format!("W/{tag}")));
    }
}

fn change(headers: &mut HeaderMap, name: HeaderName, change: impl Fn(&str) -> Option<String>) {
    let value = headers.get(&name).and_then(|value| value.to_str().ok()).and_then(change);
    if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_paths_cannot_leave_the_directory() {
        for (path, safe) in [
            ("/a%20b+c", true),
            ("/%zz", true),
            ("/%2e%2e/secret", false),
            ("/a/%2E%2E%2Fsecret", false),
            ("/%00", false),
            ("/a%5Cb", false),
            ("/%2egit", false),
        ] {
            let decoded = percent_decode_str(path).decode_utf8().unwrap();
            assert_eq!(is_safe(&decoded), safe, "{path}");
        }
    }
}
