//! A Daytona that has no sandboxes and refuses to create any: generated tasks must not start processes on this machine,
//! and a provider that is not reachable would make the plane respond with 503.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until the process ends, and returns its URL.
pub fn start() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The plane reports a request without a response.
            drop(respond(stream));
        }
    });
    Ok(url)
}

fn respond(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&part[..length]),
        }
    }
    let (status, body) = response(&String::from_utf8_lossy(&request));
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    stream.shutdown(Shutdown::Write)?;
    // Closing a connection with unread data would reset it, and the response might be lost.
    io::copy(&mut stream, &mut io::sink())?;
    Ok(())
}

fn response(request: &str) -> (&'static str, &'static str) {
    match request {
        list if list.starts_with("GET /sandbox?") => ("200 OK", "[]"),
        one if one.starts_with("GET ") => ("404 Not Found", r#"{"message": "no such sandbox"}"#),
        _ => ("400 Bad Request", r#"{"message": "this provider creates no sandboxes"}"#),
    }
}
