//! HTTP/1 connections, with a deadline for request headers, which `axum::serve` has no setting for.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Slow-client cutoff: the headers of a request must be complete within this time.
///
/// hyper starts the clock when it begins to wait for a request, so this is also how long a connection may be idle
/// between two requests. Clients open a new connection then: browsers, reqwest and the AWS SDK notice that a pooled
/// connection was closed. A request that is sent in the very moment of the closing fails, so this must not equal a
/// period at which clients poll: workers send a heartbeat every 30 s, and the console polls every 3, 5, 20 or 30 s.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves connections until `stop` is ready, then lets the requests in progress finish.
///
/// A response may take as long as it needs, and an upgraded connection (a WebSocket) has deadlines of its own.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    header_read_timeout: Duration,
    stop: impl Future<Output = ()>,
) {
    let (stopping, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            // Retries by itself when the process has too many open files.
            (stream, _) = Listener::accept(&mut listener) => {
                let stopping = stopping.subscribe();
                connections.spawn(connection(stream, router.clone(), header_read_timeout, stopping));
            }
            Some(_) = connections.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    router: Router,
    header_read_timeout: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    // Without this a frame may wait 40 ms for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Cannot set TCP_NODELAY on a connection");
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_read_timeout);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served.with_upgrades());
    let stopped = async {
        // An error means that the sender is gone, which is also the end.
        let _gone = stopping.wait_for(|stopping| *stopping).await;
    };
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopped => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "A connection was cut");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::ws::WebSocketUpgrade;
    use axum::response::Response;
    use axum::routing::get;
    use futures_util::{SinkExt, StreamExt};
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{sleep, timeout};
    use tokio_tungstenite::tungstenite::Message;

    /// For connections that must be cut.
    const SHORT: Duration = Duration::from_millis(100);
    /// For requests that must be served: they arrive in time also on a busy machine.
    const LONG: Duration = Duration::from_secs(2);
    /// Longer than either.
    const LONGER: Duration = Duration::from_millis(2_500);
    /// Longer than any of these tests takes.
    const SOON: Duration = Duration::from_secs(20);

    async fn slow() -> &'static str {
        sleep(LONGER).await;
        "slow"
    }

    /// Sends back what it receives.
    async fn echo(upgrade: WebSocketUpgrade) -> Response {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    }

    async fn served(header_read_timeout: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/fast", get(async || "fast"))
            .route("/slow", get(slow))
            .route("/echo", get(echo));
        tokio::spawn(serve(listener, router, header_read_timeout, std::future::pending()));
        address
    }

    /// Sends bytes, and returns everything that comes back until the server closes the connection.
    async fn until_closed(address: SocketAddr, sent: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut received = String::new();
        let closed = timeout(SOON, stream.read_to_string(&mut received)).await;
        closed.expect("the server closes the connection").unwrap();
        received
    }

    #[tokio::test]
    async fn connection_with_half_sent_headers_is_closed() {
        let address = served(SHORT).await;
        for sent in ["", "GET /fast HTTP/1.1\r\n", "GET /fast HTTP/1.1\r\nhost: a\r\nx-slow: "] {
            assert_eq!(until_closed(address, sent).await, "", "{sent:?}");
        }
    }

    #[tokio::test]
    async fn headers_that_arrive_byte_by_byte_do_not_extend_the_deadline() {
        let mut stream = TcpStream::connect(served(SHORT).await).await.unwrap();
        let sending = async {
            // Fails when the server has closed the connection.
            while stream.write_all(b"G").await.is_ok() {
                sleep(SHORT / 4).await;
            }
        };
        timeout(SOON, sending).await.expect("the server closes the connection");
    }

    #[tokio::test]
    async fn idle_connection_is_closed_after_its_response() {
        let received = until_closed(served(LONG).await, "GET /fast HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(received.starts_with("HTTP/1.1 200") && received.ends_with("fast"), "{received}");
    }

    #[tokio::test]
    async fn slow_response_is_not_cut() {
        let received = until_closed(served(LONG).await, "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(received.ends_with("slow"), "{received}");
    }

    #[tokio::test]
    async fn pooled_client_goes_on_after_its_idle_connection_was_closed() {
        let (address, client) = (served(LONG).await, reqwest::Client::new());
        for _ in 0..2 {
            let answer = client.get(format!("http://{address}/fast")).send().await.unwrap();
            assert_eq!(answer.text().await.unwrap(), "fast");
            sleep(LONGER).await;
        }
    }

    #[tokio::test]
    async fn socket_outlives_the_deadline_for_headers() {
        let url = format!("ws://{}/echo", served(LONG).await);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        sleep(LONGER).await;
        socket.send(Message::text("still here")).await.unwrap();
        let answer = timeout(SOON, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(answer.to_text().unwrap(), "still here");
    }

    #[tokio::test]
    async fn request_in_progress_is_answered_after_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (started, mut begun) = watch::channel(false);
        let router = Router::new().route(
            "/slow",
            get(async move || {
                started.send_replace(true);
                slow().await
            }),
        );
        let (stop, mut stopped) = watch::channel(false);
        let server = tokio::spawn(serve(listener, router, SOON, async move {
            let _gone = stopped.wait_for(|stop| *stop).await;
        }));
        let request = tokio::spawn(async move { reqwest::get(format!("http://{address}/slow")).await });
        begun.wait_for(|begun| *begun).await.unwrap();
        stop.send_replace(true);
        assert_eq!(request.await.unwrap().unwrap().text().await.unwrap(), "slow");
        timeout(SOON, server).await.expect("the server ends after its last request").unwrap();
    }
}
