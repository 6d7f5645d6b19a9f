//! A TCP proxy that closes each connection after a random time.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A running proxy. It stops when dropped.
#[derive(Debug)]
pub struct FlakyProxy {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl FlakyProxy {
    /// Starts a proxy to `upstream`. Each connection is closed after a random time within `life_ms`.
    pub async fn start(upstream: SocketAddr, life_ms: Range<u64>, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let mut random = StdRng::seed_from_u64(seed);
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let life = Duration::from_millis(random.random_range(life_ms.clone()));
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(upstream).await else { return };
                    // Ends by itself, or is closed in the middle of a transfer.
                    let _closed = timeout(life, tokio::io::copy_bidirectional(&mut near, &mut far)).await;
                });
            }
        });
        Self { address, connections, task }
    }

    /// Number of connections so far. All but the first are reconnects.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for FlakyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
