//! Whoever watches at a socket.

use crate::scenarios::Plane;
use kit::socket::Socket;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Whatever takes longer does not come.
const SOON: Duration = Duration::from_secs(60);

/// A socket, and what it hears.
pub struct Watcher(Socket);

impl Watcher {
    /// Watches what is told under this path.
    pub async fn open(plane: &Plane, path: &str) -> Self {
        let url = format!("ws://{}{path}?token={}", plane.address, plane.token);
        Self(Socket::open(&url).await.expect("a socket"))
    }

    /// Waits for one event of each type, and returns when each came. Events of different entities have no order.
    pub async fn arrivals<const N: usize>(
        &mut self,
        event_types: [&str; N],
        fits: impl Fn(&Value) -> bool,
    ) -> [Instant; N] {
        let mut arrived = [None; N];
        let all = async {
            loop {
                if let Some(all) = arrived.iter().copied().collect::<Option<Vec<Instant>>>() {
                    return all.try_into().expect("there are as many as types");
                }
                let frame = self.0.next().await.expect("the socket stays open");
                let index = event_types.iter().position(|event_type| frame["event_type"] == *event_type);
                if let Some(index) = index.filter(|_| fits(&frame["payload"])) {
                    arrived[index].get_or_insert_with(Instant::now);
                }
            }
        };
        timeout(SOON, all).await.unwrap_or_else(|_| panic!("not all of {event_types:?} came"))
    }

    /// Waits for an event.
    pub async fn until(&mut self, event_type: &str, fits: impl Fn(&Value) -> bool) {
        let found = async {
            loop {
                let frame = self.0.next().await.expect("the socket stays open");
                if frame["event_type"] == event_type && fits(&frame["payload"]) {
                    return;
                }
            }
        };
        timeout(SOON, found).await.unwrap_or_else(|_| panic!("{event_type} did not come"));
    }
}
