//! The console's pages over HTTP.

use crate::support::{OPERATOR, TestPlane};
use local::hosts::pages::POLICY;
use reqwest::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
    IF_NONE_MATCH, RANGE, VARY,
};
use reqwest::{Method, StatusCode};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const INDEX: &str = "<!doctype html><title>A tiny console</title>";
const SCRIPT: &str = "console.log('hello')";

/// A console build in `dist`, next to a file that must not be served.
fn site() -> TempDir {
    let parent = TempDir::new().unwrap();
    let dist = parent.path().join("dist");
    fs::create_dir_all(dist.join("assets")).unwrap();
    fs::create_dir_all(dist.join(".vite")).unwrap();
    fs::write(dist.join("index.html"), INDEX).unwrap();
    fs::write(dist.join("favicon.svg"), "<svg/>").unwrap();
    fs::write(dist.join("assets/index-B2xZ.js"), SCRIPT).unwrap();
    fs::write(dist.join(".vite/manifest.json"), "{}").unwrap();
    fs::write(parent.path().join("secret.txt"), "planted").unwrap();
    parent
}

async fn plane_serving(folder: &Path) -> TestPlane {
    TestPlane::start_with(|dev| dev.web = Some(folder.to_owned())).await
}

async fn get(plane: &TestPlane, path: &str) -> reqwest::Response {
    plane.raw(Method::GET, path).send().await.unwrap()
}

/// Sends the path as it is, because HTTP clients normalize paths.
async fn raw(plane: &TestPlane, path: &str) -> String {
    let mut connection = TcpStream::connect(plane.running.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn every_page_is_index_html_and_is_revalidated() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    for path in [
        "/",
        "/?q=t",
        "/command",
        "/sandboxes",
        "/sandbox/build-1.2",
        "/sandbox/a.js",
        "/compare/a/b",
        "/%zz",
        "/api",
    ] {
        let page = get(&plane, path).await;
        assert_eq!(page.status(), 200, "{path}");
        let headers = page.headers().clone();
        assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        assert_eq!(headers[CACHE_CONTROL], "no-cache", "{path}");
        assert_eq!(headers["content-security-policy"], POLICY, "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(page.text().await.unwrap(), INDEX, "{path}");
        let again = plane.raw(Method::GET, path).header(IF_NONE_MATCH, &headers[ETAG]).send().await.unwrap();
        assert_eq!(again.status(), 304, "{path}");
    }
    fs::write(site.path().join("dist/index.html"), "newer").unwrap();
    assert_eq!(get(&plane, "/").await.text().await.unwrap(), "newer");
}

#[tokio::test]
async fn missing_asset_is_not_found_instead_of_index_html() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    let script = get(&plane, "/assets/index-B2xZ.js").await;
    assert_eq!(script.headers()[CONTENT_TYPE], "text/javascript; charset=utf-8");
    assert_eq!(script.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
    assert_eq!(script.text().await.unwrap(), SCRIPT);
    let icon = get(&plane, "/favicon.svg").await;
    assert_eq!(
        (&icon.headers()[CONTENT_TYPE], &icon.headers()[CACHE_CONTROL]),
        (&"image/svg+xml".parse().unwrap(), &"no-cache".parse().unwrap())
    );
    for missing in ["/assets/index-Old1.js", "/assets/", "/assets/../index.js"] {
        let response = raw(&plane, missing).await;
        assert!(response.starts_with("HTTP/1.1 404"), "{missing}: {response}");
        assert!(
            response.contains("application/problem+json") && response.contains("route_not_found"),
            "{missing}: {response}"
        );
    }
    let nothing = plane.get("/api/v1/nothing", OPERATOR).await;
    assert_eq!((nothing.status, nothing.body["code"].as_str()), (404, Some("route_not_found")));
}

#[tokio::test]
async fn only_get_and_head_serve_pages() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    for (path, length) in [("/command", INDEX.len()), ("/assets/index-B2xZ.js", SCRIPT.len())] {
        let head_response = plane.raw(Method::HEAD, path).send().await.unwrap();
        assert_eq!(
            (head_response.status().as_u16(), head_response.headers()["content-length"].to_str().unwrap()),
            (200, length.to_string().as_str())
        );
        assert!(head_response.bytes().await.unwrap().is_empty());
    }
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let refused = plane.raw(method.clone(), "/command").send().await.unwrap();
        assert_eq!(refused.status(), 404, "{method}");
        assert_eq!(refused.headers()[CONTENT_TYPE], "application/problem+json", "{method}");
    }
}

#[tokio::test]
async fn gzip_is_sent_only_if_accepted_and_has_a_weak_etag() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    let page = async |header: HeaderName, value: &str| {
        plane.raw(Method::GET, "/").header(header, value).send().await.unwrap()
    };
    for (accepted, expected) in [
        ("gzip, deflate, br", true),
        ("br;q=1.0, gzip;q=0.8", true),
        ("*", true),
        ("gzip;q=0", false),
        ("identity", false),
        ("", false),
    ] {
        let response = page(ACCEPT_ENCODING, accepted).await;
        let headers = response.headers().clone();
        assert_eq!(headers[VARY], "accept-encoding", "{accepted}");
        assert_eq!(headers.get(CONTENT_ENCODING).is_some(), expected, "{accepted}");
        let tag = headers[ETAG].to_str().unwrap();
        assert_eq!(tag.starts_with("W/"), expected, "{accepted}: {tag}");
        assert_eq!(page(IF_NONE_MATCH, tag).await.status(), 304, "{accepted}");
        let body = response.bytes().await.unwrap();
        assert_eq!(body.starts_with(&[0x1f, 0x8b]), expected, "{accepted}");
        assert!(expected || body == INDEX, "{accepted}");
    }
}

#[tokio::test]
async fn part_of_a_file_is_served() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    let range = async |range: &str| {
        plane.raw(Method::GET, "/assets/index-B2xZ.js").header(RANGE, range).send().await.unwrap()
    };
    let part = range("bytes=0-6").await;
    assert_eq!(
        (part.status(), &part.headers()[CONTENT_RANGE]),
        (StatusCode::PARTIAL_CONTENT, &"bytes 0-6/20".parse().unwrap())
    );
    assert_eq!(part.text().await.unwrap(), "console");
    let invalid = range("bytes=999-").await;
    assert_eq!(
        (invalid.status(), &invalid.headers()[CACHE_CONTROL]),
        (StatusCode::RANGE_NOT_SATISFIABLE, &"no-cache".parse().unwrap())
    );
}

#[tokio::test]
async fn path_traversal_is_rejected() {
    let site = site();
    let plane = plane_serving(&site.path().join("dist")).await;
    for path in [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets%2f..%2f..%2fsecret.txt",
        "/..%5csecret.txt",
        "/.vite/manifest.json",
        "/%00",
        "/%ff",
    ] {
        let response = raw(&plane, path).await;
        assert!(response.starts_with("HTTP/1.1 404") && !response.contains("planted"), "{path}: {response}");
    }
}

/// A configured folder replaces the embedded console, even if it is empty.
#[tokio::test]
async fn missing_console_build_explains_how_to_build_it() {
    let empty = TempDir::new().unwrap();
    let plane = plane_serving(empty.path()).await;
    for path in ["/", "/sandbox/s-1"] {
        let page = get(&plane, path).await;
        assert_eq!(
            (page.status().as_u16(), &page.headers()[CACHE_CONTROL]),
            (503, &"no-store".parse().unwrap())
        );
        assert!(page.text().await.unwrap().contains("cargo xtask web"), "{path}");
    }
    assert_eq!(get(&plane, "/api/v1/sandboxes/health").await.status(), 200);
}

/// Without an embedded console, a page explains how to build it.
#[tokio::test]
async fn embedded_console_is_served_with_and_without_gzip() {
    let plane = TestPlane::start().await;
    let page = async |encoding: &str| {
        let response =
            plane.raw(Method::GET, "/sandboxes").header(ACCEPT_ENCODING, encoding).send().await.unwrap();
        let content_encoding =
            response.headers().get("content-encoding").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), content_encoding, response.bytes().await.unwrap())
    };
    let (status, content_encoding, plain) = page("identity").await;
    assert_eq!(content_encoding, None);
    let text = String::from_utf8(plain.to_vec()).unwrap();
    assert!(text.to_lowercase().starts_with("<!doctype html>"), "{text}");
    match status {
        200 => assert_eq!(page("gzip").await.1.as_deref(), Some("gzip")),
        503 => assert!(text.contains("cargo xtask web")),
        other => panic!("{other}: {text}"),
    }
}
