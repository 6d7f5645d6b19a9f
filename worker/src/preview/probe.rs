//! Asking a port for its first page.

use crate::event::first_chars;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(2);
/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_secs(1);
/// What is read of a page: its title is near its beginning.
const PAGE_BYTES: u64 = 64 * 1024;
/// Longest title that is told.
const TITLE_CHARS: usize = 200;

/// What a page, or the name of a process, has in it that says what made it.
const SIGNS: [(&str, &str); 16] = [
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

/// A first page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What made it, if it shows.
    pub framework: Option<&'static str>,
    /// What it is called, if it is.
    pub title: Option<String>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// Nothing came back.
    #[error("port {0} did not answer: {1}")]
    Silent(u16, io::Error),
    /// Something else than HTTP came back.
    #[error("port {0} answers, but not in HTTP")]
    NotHttp(u16),
    /// The server has a problem of its own.
    #[error("port {0} answers with status {1}")]
    Broken(u16, u16),
}

/// Asks until there is a page, or patience is at its end.
pub async fn probe(
    port: u16,
    addresses: &[IpAddr],
    command: &str,
    patience: Duration,
) -> Result<Page, Unready> {
    let end = Instant::now() + patience;
    loop {
        let mut last = Unready::Silent(port, io::Error::other("it has no address"));
        for address in addresses {
            let answer = tokio::time::timeout(ANSWER.min(patience), fetch(*address, port)).await;
            let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
            last = match answer.unwrap_or_else(|_| late()) {
                Ok(answer) => match read(port, &answer, command) {
                    Ok(page) => return Ok(page),
                    Err(unready) => unready,
                },
                Err(error) => Unready::Silent(port, error),
            };
        }
        if Instant::now() + PAUSE > end {
            return Err(last);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What comes back within the time. A page that never ends is cut, and that is no failure.
async fn fetch(address: IpAddr, port: u16) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((address, port)).await?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: sunaba-worker/{version}\r\nAccept: text/html,*/*\r\n\
         Connection: close\r\n\r\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut stream = stream.take(PAGE_BYTES);
    // Shorter than the time for all of it, so that what came is kept.
    let read = tokio::time::timeout(ANSWER / 2, stream.read_to_end(&mut answer)).await;
    match read {
        _ if !answer.is_empty() => Ok(answer),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")),
    }
}

fn read(port: u16, answer: &[u8], command: &str) -> Result<Page, Unready> {
    let text = String::from_utf8_lossy(answer);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
    match status {
        None => Err(Unready::NotHttp(port)),
        Some(status) if status >= 500 => Err(Unready::Broken(port, status)),
        Some(_) => Ok(Page { framework: framework(&text, command), title: title(&text) }),
    }
}

fn framework(answer: &str, command: &str) -> Option<&'static str> {
    let text = format!("{command}\n{answer}").to_ascii_lowercase();
    SIGNS.iter().find(|(sign, _)| text.contains(sign)).map(|&(_, framework)| framework)
}

fn title(answer: &str) -> Option<String> {
    let lower = answer.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = answer[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
    Some(first_chars(&title, TITLE_CHARS).to_owned()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        for (answer, command, framework, title) in [
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
            let page = read(1, answer.as_bytes(), command).unwrap();
            assert_eq!((page.framework, page.title.as_deref()), (framework, title), "{answer}");
        }
        assert!(matches!(read(1, b"HTTP/1.1 503 Busy\r\n\r\n", ""), Err(Unready::Broken(1, 503))));
        for answer in [
            &b"-ERR unknown command\r\n"[..],
            b"\x15\x03\x03\0\x02",
            b"HTTP/1.",
            b"HTTP/1.1 \xc3\xa4\xc3\xa4",
        ] {
            assert!(matches!(read(1, answer, ""), Err(Unready::NotHttp(1))), "{answer:?}");
        }
    }
}
