//! The floor: the same HTTP server, in a process of its own, with a handler that only reads the body.

use axum::Router;
use axum::serve::ListenerExt;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// Makes this binary the floor.
pub const FLAG: &str = "--serve-floor";

/// A floor that runs. Dropping it ends it.
pub struct Floor {
    /// Where it listens.
    pub address: String,
    _child: Child,
}

impl Floor {
    /// Starts this binary as the floor.
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
        Self { address: address.expect("it says where it listens"), _child: child }
    }
}

/// Serves until killed.
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // The parent reads the address.
    terminal::print_line(&listener.local_addr().expect("a bound listener has an address").to_string());
    let router = Router::new().fallback(|body: axum::body::Bytes| async move { body.len().to_string() });
    let listener =
        listener.tap_io(|connection| connection.set_nodelay(true).expect("a TCP socket has this option"));
    axum::serve(listener, router).await.expect("the floor serves until it is killed");
}
