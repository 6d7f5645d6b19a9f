//! Probes a port over HTTP for its first page.

use super::Loopback;
use crate::event::first_chars;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum part of a page that is read. The title is near its beginning.
const MAX_PAGE_BYTES: u64 = 64 * 1024;
const MAX_TITLE_CHARS: usize = 200;

/// Substrings of a response or process name that identify the framework.
const FRAMEWORKS: [(&str, &str); 16] = [
    ("/@vite/client", "vite"),
    ("x-powered-by: next.js", "next"),
    ("/_next/static", "next"),
    ("next-server", "next"),
    ("__nuxt", "nuxt"),
    ("__sveltekit", "sveltekit"),
    ("<astro-island", "astro"),
    ("ng-version=", "angular"),
    ("webpack-dev-server", "webpack"),
    ("x-powered-by: express", "express"),
    ("server: werkzeug", "flask"),
    ("server: wsgiserver", "django"),
    ("server: uvicorn", "uvicorn"),
    ("server: gunicorn", "gunicorn"),
    ("server: simplehttp", "python"),
    ("x-powered-by: php", "php"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub framework: Option<&'static str>,
    pub title: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("port {0} did not respond: {1}")]
    NoResponse(u16, io::Error),
    #[error("port {0} does not speak HTTP")]
    NotHttp(u16),
    #[error("port {0} responded with status {1}")]
    ServerError(u16, u16),
}

/// Retries until the port serves a page or the timeout has passed.
pub async fn probe(
    loopback: &Loopback,
    port: u16,
    addresses: &[IpAddr],
    command: &str,
    timeout: Duration,
) -> Result<Page, ProbeError> {
    let deadline = Instant::now() + timeout;
    loop {
        let mut last = ProbeError::NoResponse(port, io::Error::other("no address to connect to"));
        for address in addresses {
            let response =
                tokio::time::timeout(REQUEST_TIMEOUT.min(timeout), fetch(loopback, *address, port)).await;
            let timed_out = || Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
            last = match response.unwrap_or_else(|_| timed_out()) {
                Ok(response) => match parse(port, &response, command) {
                    Ok(page) => return Ok(page),
                    Err(error) => error,
                },
                Err(error) => ProbeError::NoResponse(port, error),
            };
        }
        if Instant::now() + RETRY_DELAY > deadline {
            return Err(last);
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Reads the response up to the limits. A page that never ends is truncated, which is not an error.
async fn fetch(loopback: &Loopback, address: IpAddr, port: u16) -> io::Result<Vec<u8>> {
    let mut stream = loopback.connect(address, port).await?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: sunaba-worker/{version}\r\nAccept: text/html,*/*\r\n\
         Connection: close\r\n\r\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    let mut stream = stream.take(MAX_PAGE_BYTES);
    // Shorter than the caller's timeout, so that a partial response is kept.
    let read = tokio::time::timeout(REQUEST_TIMEOUT / 2, stream.read_to_end(&mut response)).await;
    match read {
        _ if !response.is_empty() => Ok(response),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed")),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "timed out")),
    }
}

fn parse(port: u16, response: &[u8], command: &str) -> Result<Page, ProbeError> {
    let text = String::from_utf8_lossy(response);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
    match status {
        None => Err(ProbeError::NotHttp(port)),
        Some(status) if status >= 500 => Err(ProbeError::ServerError(port, status)),
        Some(_) => Ok(Page { framework: framework(&text, command), title: title(&text) }),
    }
}

fn framework(response: &str, command: &str) -> Option<&'static str> {
    let text = format!("{command}\n{response}").to_ascii_lowercase();
    FRAMEWORKS.iter().find(|(pattern, _)| text.contains(pattern)).map(|&(_, framework)| framework)
}

fn title(response: &str) -> Option<String> {
    let lower = response.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = response[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
    Some(first_chars(&title, MAX_TITLE_CHARS).to_owned()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_parsed() {
        for (response, command, framework, title) in [
            ("HTTP/1.1 200 OK\r\n\r\n<head><title>A  b</title>", "node", None, Some("A b")),
            (
                "HTTP/1.1 404 Not Found\r\nX-Powered-By: Express\r\n\r\nCannot GET /",
                "node",
                Some("express"),
                None,
            ),
            ("HTTP/1.1 200 OK\r\n\r\n<script src=\"/@vite/client\"></script>", "node", Some("vite"), None),
            ("HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6\r\n\r\n", "python3", Some("python"), None),
            ("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", "next-server (v1", Some("next"), None),
            ("HTTP/1.1 200 OK\r\n\r\n<title lang=\"de\">Größe</title>", "x", None, Some("Größe")),
            ("HTTP/1.1 200 OK\r\n\r\n<title>cut", "x", None, None),
        ] {
            let page = parse(1, response.as_bytes(), command).unwrap();
            assert_eq!((page.framework, page.title.as_deref()), (framework, title), "{response}");
        }
        assert!(matches!(parse(1, b"HTTP/1.1 503 Busy\r\n\r\n", ""), Err(ProbeError::ServerError(1, 503))));
        for response in [
            &b"-ERR unknown command\r\n"[..],
            b"\x15\x03\x03\0\x02",
            b"HTTP/1.",
            b"HTTP/1.1 \xc3\xa4\xc3\xa4",
        ] {
            assert!(matches!(parse(1, response, ""), Err(ProbeError::NotHttp(1))), "{response:?}");
        }
    }
}
