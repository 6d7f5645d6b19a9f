//! A minimal HTTP client. It shares the cores with the plane, so it must use little CPU time.

use crate::report::Measured;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket has this option");
        Self { stream, buffer: Vec::with_capacity(64 * 1024) }
    }

    /// Sends a request and returns the response body. Panics unless the status is 2xx.
    pub async fn request(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).await.expect("the server reads");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
            assert!(read > 0, "the server closed the connection");
            let Some(end) = find(&self.buffer, b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 2"), "{}", String::from_utf8_lossy(&self.buffer));
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize =
                length.and_then(|length| length.trim().parse().ok()).expect("a content length");
            while self.buffer.len() < end + 4 + length {
                let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
                assert!(read > 0, "the server closed the connection");
            }
            return &self.buffer[end + 4..];
        }
    }
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

pub fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// Sends `count` requests over `connections` connections, each as soon as the previous one on its connection is answered.
/// `request` builds a request from the index of its connection and its number on that connection.
pub async fn drive(
    address: &str,
    connections: usize,
    count: usize,
    request: impl Fn(usize, usize) -> Vec<u8> + Copy,
) -> Measured {
    let opened = join_all((0..connections).map(|_| Connection::open(address))).await;
    let begun = Instant::now();
    let runs = opened.into_iter().enumerate().map(|(index, mut connection)| async move {
        let mut times: Vec<Duration> = Vec::with_capacity(count / connections);
        for number in 0..count / connections {
            let request = request(index, number);
            let sent = Instant::now();
            connection.request(&request).await;
            times.push(sent.elapsed());
        }
        times
    });
    let times = join_all(runs).await.into_iter().flatten().collect();
    Measured::new(times, begun.elapsed())
}
