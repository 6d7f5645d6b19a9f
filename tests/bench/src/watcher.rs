//! A client that waits for events on a socket.

use crate::scenarios::Plane;
use kit::socket::Socket;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Watcher(Socket);

impl Watcher {
    pub async fn open(plane: &Plane, path: &str) -> Self {
        let url = format!("ws://{}{path}?token={}", plane.address, plane.token);
        Self(Socket::open(&url).await.expect("a socket"))
    }

    /// Waits for one event of each type and returns their times of arrival. Events of different entities have no order.
    pub async fn arrivals<const N: usize>(
        &mut self,
        event_types: [&str; N],
        matches: impl Fn(&Value) -> bool,
    ) -> [Instant; N] {
        let mut arrived = [None; N];
        let all = async {
            loop {
                if let Some(all) = arrived.iter().copied().collect::<Option<Vec<Instant>>>() {
                    return all.try_into().expect("one arrival per type");
                }
                let frame = self.0.next().await.expect("the socket stays open");
                let index = event_types.iter().position(|event_type| frame["event_type"] == *event_type);
                if let Some(index) = index.filter(|_| matches(&frame["payload"])) {
                    arrived[index].get_or_insert_with(Instant::now);
                }
            }
        };
        timeout(TIMEOUT, all).await.unwrap_or_else(|_| panic!("not all of {event_types:?} arrived"))
    }

    /// Waits for an event.
    pub async fn until(&mut self, event_type: &str, matches: impl Fn(&Value) -> bool) {
        let found = async {
            loop {
                let frame = self.0.next().await.expect("the socket stays open");
                if frame["event_type"] == event_type && matches(&frame["payload"]) {
                    return;
                }
            }
        };
        timeout(TIMEOUT, found).await.unwrap_or_else(|_| panic!("{event_type} did not arrive"));
    }
}
