//! A web page on a port of this machine, so that there is something to preview.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Opens the port, and returns what serves it for so long.
pub async fn serve(port: u16, time: Duration) -> io::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    Ok(async move {
        let forever = async {
            while let Ok((stream, _)) = listener.accept().await {
                // A visitor that leaves early misses the page, nothing more.
                let _ = tokio::time::timeout(Duration::from_secs(2), greet(stream)).await;
            }
        };
        let _ = tokio::time::timeout(time, forever).await;
    })
}

async fn greet(mut stream: TcpStream) -> io::Result<()> {
    let page = "<!doctype html><title>Scripted agent</title><h1>Hello from the sandbox</h1>\n";
    let mut request = [0; 4096];
    // Whatever was asked for, as far as it fits: the answer is the same.
    let _read = stream.read(&mut request).await?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}
