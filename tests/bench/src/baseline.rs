//! The baseline: the same HTTP server in its own process, with a handler that only reads the body.

use axum::Router;
use axum::serve::ListenerExt;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// Internal flag: runs the baseline server.
pub const FLAG: &str = "--serve-baseline";

/// A running baseline server. It is killed when dropped.
pub struct Baseline {
    pub address: String,
    _child: Child,
}

impl Baseline {
    /// Starts this binary as the baseline server.
    pub async fn start() -> Self {
        let here = std::env::current_exe().expect("this process has a binary");
        let mut child = Command::new(here)
            .arg(FLAG)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this binary can be started");
        let output = child.stdout.take().expect("its standard output is a pipe");
        let address = BufReader::new(output).lines().next_line().await.expect("its output can be read");
        Self { address: address.expect("it prints its address"), _child: child }
    }
}

/// Serves until killed.
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // Read by the parent process.
    terminal::print_line(&listener.local_addr().expect("a bound listener has an address").to_string());
    let router = Router::new().fallback(|body: axum::body::Bytes| async move { body.len().to_string() });
    let listener =
        listener.tap_io(|connection| connection.set_nodelay(true).expect("a TCP socket has this option"));
    axum::serve(listener, router).await.expect("a listener keeps accepting");
}
