//! Open sockets, and the management API: `POST` and `DELETE` on `/@connections/{id}`.

use super::connector::Reply;
use bytes::Bytes;
use domain::ConnectionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;

/// Maximum number of queued frames per socket. A slower client is dropped; it reconnects and fetches what it missed.
pub const MAX_QUEUED_FRAMES: usize = 1024;
/// Maximum size of the queued frames of a socket; a frame may have 32 KB.
pub const MAX_QUEUED_BYTES: usize = 2 * 1024 * 1024;

/// All open sockets.
#[derive(Debug, Default)]
pub struct Hub(Mutex<HashMap<String, Outbox>>);

#[derive(Debug)]
struct Outbox {
    frames: mpsc::Sender<Bytes>,
    queued_bytes: Arc<AtomicUsize>,
}

/// Frames to send on one socket. Closed when the socket is to be closed.
#[derive(Debug)]
pub struct Inbox {
    frames: mpsc::Receiver<Bytes>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Inbox {
    /// Waits for frames and takes up to `limit`; empty when the socket is to be closed.
    pub async fn take(&mut self, limit: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        self.frames.recv_many(&mut taken, limit).await;
        let bytes = taken.iter().map(Bytes::len).sum();
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }
}

impl Outbox {
    fn put(&self, frame: &[u8]) -> bool {
        let before = self.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        before + frame.len() <= MAX_QUEUED_BYTES
            && self.frames.try_send(Bytes::copy_from_slice(frame)).is_ok()
    }
}

impl Hub {
    /// Adds a socket. Frames for it arrive in the inbox.
    pub fn register(&self, id: &ConnectionId) -> Inbox {
        let (sender, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        self.sockets().insert(id.to_string(), Outbox { frames: sender, queued_bytes: queued_bytes.clone() });
        Inbox { frames, queued_bytes }
    }

    pub fn remove(&self, id: &ConnectionId) {
        self.sockets().remove(id.as_str());
    }

    pub fn len(&self) -> usize {
        self.sockets().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes all sockets, for shutdown or after a lost broadcast. Clients reconnect and fetch what they missed.
    pub fn close_all(&self) {
        self.sockets().clear();
    }

    /// Never blocks, so that a slow client does not delay others.
    pub(super) fn call(&self, method: &str, uri: &str, body: &[u8]) -> Reply {
        let id = uri.rsplit('/').next().map(contract::query::percent_decode).unwrap_or_default();
        let mut sockets = self.sockets();
        let delivered = match (method, sockets.get(&id)) {
            (_, None) => false,
            ("DELETE", Some(_)) => sockets.remove(&id).is_some(),
            (_, Some(socket)) => socket.put(body),
        };
        if delivered {
            return Reply::new(200, Vec::new());
        }
        // A client that has stopped reading is dropped here.
        sockets.remove(&id);
        Reply::json(
            410,
            &serde_json::json!({"__type": "GoneException", "message": "the connection is closed"}),
        )
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<String, Outbox>> {
        self.0.lock().expect("no code panics while it holds the sockets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConnectionId {
        ConnectionId::parse(text).unwrap()
    }

    #[tokio::test]
    async fn only_the_client_that_stops_reading_is_dropped() {
        for (frame, fit) in [(vec![b'x'; 10], MAX_QUEUED_FRAMES), (vec![b'x'; 32 * 1024], 64)] {
            let hub = Hub::default();
            let (mut stalled, mut inbox) = (hub.register(&id("slow")), hub.register(&id("quick")));
            for _ in 0..=fit {
                hub.call("POST", "/@connections/slow", &frame);
                assert_eq!(hub.call("POST", "/@connections/quick", &frame).status, 200);
                assert_eq!(inbox.take(10).await.len(), 1);
            }
            assert_eq!(hub.call("POST", "/@connections/slow", &frame).status, 410);
            assert_eq!(hub.len(), 1);
            let mut queued = 0;
            loop {
                match stalled.take(1000).await.len() {
                    0 => break,
                    taken => queued += taken,
                }
            }
            assert_eq!(queued, fit);
        }
    }
}
