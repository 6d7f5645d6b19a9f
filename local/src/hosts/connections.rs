//! HTTP/1 connections, with a deadline for request headers, which `axum::serve` has no setting for.

use axum::serve::Listener;
use axum::{Extension, Router};
use edge::http::SourceIp;
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
            (stream, address) = Listener::accept(&mut listener) => {
                let stopping = stopping.subscribe();
                let router = router.clone().layer(Extension(SourceIp(address.ip())));
                connections.spawn(connection(stream, router, header_read_timeout, stopping));
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
        // An error means that the sender was dropped, which also means stop.
        let _dropped = stopping.wait_for(|stopping| *stopping).await;
    };
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = stopped => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "A connection was closed with an error");
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

    /// For connections that must be closed.
    const SHORT: Duration = Duration::from_millis(100);
    /// For requests that must be served: they arrive in time also on a busy machine.
    const LONG: Duration = Duration::from_secs(2);
    /// Longer than either.
    const LONGER: Duration = Duration::from_millis(2_500);
    /// Longer than any of these tests takes.
    const TIMEOUT: Duration = Duration::from_secs(20);

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
        let closed = timeout(TIMEOUT, stream.read_to_string(&mut received)).await;
        closed.expect("the server closes the connection").unwrap();
        received
    }

    #[tokio::test]
    async fn request_has_the_address_of_its_sender() {
        let shown = get(async |Extension(SourceIp(ip)): Extension<SourceIp>| ip.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().route("/", shown);
        tokio::spawn(serve(listener, router, LONG, std::future::pending()));
        assert_eq!(reqwest::get(url).await.unwrap().text().await.unwrap(), "127.0.0.1");
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
        timeout(TIMEOUT, sending).await.expect("the server closes the connection");
    }

    #[tokio::test]
    async fn idle_connection_is_closed_after_its_response() {
        let received = until_closed(served(LONG).await, "GET /fast HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(received.starts_with("HTTP/1.1 200") && received.ends_with("fast"), "{received}");
    }

    #[tokio::test]
    async fn slow_response_is_not_interrupted() {
        let received = until_closed(served(LONG).await, "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(received.ends_with("slow"), "{received}");
    }

    #[tokio::test]
    async fn pooled_client_reconnects_after_its_idle_connection_was_closed() {
        let (address, client) = (served(LONG).await, reqwest::Client::new());
        for _ in 0..2 {
            let response = client.get(format!("http://{address}/fast")).send().await.unwrap();
            assert_eq!(response.text().await.unwrap(), "fast");
            sleep(LONGER).await;
        }
    }

    #[tokio::test]
    async fn socket_outlives_the_deadline_for_headers() {
        let url = format!("ws://{}/echo", served(LONG).await);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        sleep(LONGER).await;
        socket.send(Message::text("still here")).await.unwrap();
        let echoed = timeout(TIMEOUT, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(echoed.to_text().unwrap(), "still here");
    }

    #[tokio::test]
    async fn request_in_progress_is_answered_after_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (starting, mut started) = watch::channel(false);
        let router = Router::new().route(
            "/slow",
            get(async move || {
                starting.send_replace(true);
                slow().await
            }),
        );
        let (stop, mut stopped) = watch::channel(false);
        let server = tokio::spawn(serve(listener, router, TIMEOUT, async move {
            let _dropped = stopped.wait_for(|stop| *stop).await;
        }));
        let request = tokio::spawn(async move { reqwest::get(format!("http://{address}/slow")).await });
        started.wait_for(|started| *started).await.unwrap();
        stop.send_replace(true);
        assert_eq!(request.await.unwrap().unwrap().text().await.unwrap(), "slow");
        timeout(TIMEOUT, server).await.expect("the server ends after its last request").unwrap();
    }
}
