//! Logs of jobs of GitHub Actions. GitHub responds with the address of a file at another server.

use super::GitHub;
use super::http::Call;
use super::tokens::Purpose;
use reqwest::{Method, Response, StatusCode, Url};
use std::net::IpAddr;

/// What is kept of the end of a log.
const MAX_KEPT_BYTES: usize = 128 * 1024;

/// Maximum size of a log that is read: its end is at the end.
const MAX_READ_BYTES: usize = 64 * 1024 * 1024;

/// Length of the time at the begin of each line: `2026-11-20T08:15:00.1234567Z `.
const TIME_CHARS: usize = 29;

impl GitHub {
    /// The end of a job's log. `None` if there is none, or if the credential may not read it: a check can be judged
    /// without its log.
    pub(super) async fn job_log(&self, job: u64) -> Option<String> {
        let token = self.http.token(Purpose::Logs).await.ok()?;
        let path = self.path(&format!("/actions/jobs/{job}/logs"));
        let call = Call::new(Method::GET, &path, "reading the log of a job");
        let response = self.http.response(&token, &call).await.ok()?;
        let response = match response.status() {
            StatusCode::OK => response,
            status if status.is_redirection() => {
                let url = location(&response)?;
                self.http.elsewhere(url).await.ok().filter(|found| found.status() == StatusCode::OK)?
            }
            _ => return None,
        };
        let end = end_of(response).await?;
        Some(end.lines().map(without_time).collect::<Vec<_>>().join("\n"))
    }
}

/// Where the log is. Not read over a network in plain text.
fn location(response: &Response) -> Option<Url> {
    let url = Url::parse(response.headers().get("location")?.to_str().ok()?).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (url.scheme() == "https" || url.scheme() == "http" && is_loopback).then_some(url)
}

async fn end_of(mut response: Response) -> Option<String> {
    let (mut end, mut read) = (Vec::new(), 0);
    while let Some(chunk) = response.chunk().await.ok()? {
        read += chunk.len();
        if read > MAX_READ_BYTES {
            return None;
        }
        end.extend_from_slice(&chunk);
        if end.len() > 2 * MAX_KEPT_BYTES {
            end.drain(..end.len() - MAX_KEPT_BYTES);
        }
    }
    Some(String::from_utf8_lossy(&end).into_owned())
}

fn without_time(line: &str) -> &str {
    let is_time = |text: &str| text.ends_with("Z ") && text.as_bytes().get(10) == Some(&b'T');
    match line.get(..TIME_CHARS) {
        Some(begin) if is_time(begin) => &line[TIME_CHARS..],
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_left_out() {
        for (line, expected) in [
            ("2026-11-20T08:15:00.1234567Z error: it failed", "error: it failed"),
            ("2026-11-20T08:15:00.1234567Z ", ""),
            ("error: it failed, as it did the last time", "error: it failed, as it did the last time"),
            ("é", "é"),
            ("", ""),
        ] {
            assert_eq!(without_time(line), expected);
        }
    }
}
