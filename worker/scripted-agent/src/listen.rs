//! Serves a web page on a local port, for the preview.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Binds the port and returns a future that serves it for `duration`.
pub async fn serve(port: u16, duration: Duration) -> io::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    Ok(async move {
        let forever = async {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that disconnects early is ignored.
                let _ = tokio::time::timeout(Duration::from_secs(2), respond(stream)).await;
            }
        };
        let _ = tokio::time::timeout(duration, forever).await;
    })
}

async fn respond(mut stream: TcpStream) -> io::Result<()> {
    let page = "<!doctype html><title>Scripted agent</title><h1>Hello from the sandbox</h1>\n";
    let mut request = [0; 4096];
    // The response does not depend on the request.
    let _read = stream.read(&mut request).await?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}
