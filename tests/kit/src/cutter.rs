//! A wire that is cut at random: bytes pass both ways until they do not.

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

/// A wire to somewhere else. Dropping it ends it.
#[derive(Debug)]
pub struct Cutter {
    /// Where it starts.
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Cutter {
    /// A wire to `upstream`; each connection lives for a time within `life_ms`.
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
                    // Ends by itself, or is cut in the middle of whatever is on the wire.
                    let _cut = timeout(life, tokio::io::copy_bidirectional(&mut near, &mut far)).await;
                });
            }
        });
        Self { address, connections, task }
    }

    /// How many connections were made through it: each after the first because one was cut.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.task.abort();
    }
}
