//! Open sockets, and the management API's way to them: `POST` and `DELETE` on `/@connections/{id}`.

use super::connector::Reply;
use bytes::Bytes;
use domain::ConnectionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;

/// How much may wait for a reader. One that is further behind has stopped reading: it is dropped, and comes back for
/// the rest when it reads again.
pub const MAX_WAITING_FRAMES: usize = 1024;
/// As above, in bytes: frames may have 32 KB each.
pub const MAX_WAITING_BYTES: usize = 2 * 1024 * 1024;

/// All open sockets.
#[derive(Debug, Default)]
pub struct Hub(Mutex<HashMap<String, Outbox>>);

#[derive(Debug)]
struct Outbox {
    frames: mpsc::Sender<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// What is to be sent on one socket. It ends when the socket is to be closed.
#[derive(Debug)]
pub struct Inbox {
    frames: mpsc::Receiver<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Inbox {
    /// Waits for frames and takes up to `limit`; none when the socket is to be closed.
    pub async fn take(&mut self, limit: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        self.frames.recv_many(&mut taken, limit).await;
        let bytes = taken.iter().map(Bytes::len).sum();
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }
}

impl Outbox {
    fn put(&self, frame: &[u8]) -> bool {
        let before = self.waiting_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        before + frame.len() <= MAX_WAITING_BYTES
            && self.frames.try_send(Bytes::copy_from_slice(frame)).is_ok()
    }
}

impl Hub {
    /// A socket opens: frames for it come out of the inbox.
    pub fn register(&self, id: &ConnectionId) -> Inbox {
        let (sender, frames) = mpsc::channel(MAX_WAITING_FRAMES);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        self.sockets()
            .insert(id.to_string(), Outbox { frames: sender, waiting_bytes: waiting_bytes.clone() });
        Inbox { frames, waiting_bytes }
    }

    /// A socket is gone.
    pub fn remove(&self, id: &ConnectionId) {
        self.sockets().remove(id.as_str());
    }

    /// How many sockets are open.
    pub fn len(&self) -> usize {
        self.sockets().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes all: the process ends, or they may have missed something and must come back to ask for it.
    pub fn close_all(&self) {
        self.sockets().clear();
    }

    /// Never waits: nobody's slowness holds up anybody else.
    pub(super) fn call(&self, method: &str, uri: &str, body: &[u8]) -> Reply {
        let id = uri.rsplit('/').next().map(contract::query::unescape).unwrap_or_default();
        let mut sockets = self.sockets();
        let delivered = match (method, sockets.get(&id)) {
            (_, None) => false,
            ("DELETE", Some(_)) => sockets.remove(&id).is_some(),
            (_, Some(socket)) => socket.put(body),
        };
        if delivered {
            return Reply::new(200, Vec::new());
        }
        // Whoever has stopped reading is dropped here, and is gone from now on.
        sockets.remove(&id);
        Reply::json(410, &serde_json::json!({"__type": "GoneException", "message": "nobody is there"}))
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
    async fn a_reader_that_stops_is_dropped_and_the_others_are_not() {
        for (frame, fit) in [(vec![b'x'; 10], MAX_WAITING_FRAMES), (vec![b'x'; 32 * 1024], 64)] {
            let hub = Hub::default();
            let (mut stalled, mut inbox) = (hub.register(&id("slow")), hub.register(&id("quick")));
            for _ in 0..=fit {
                hub.call("POST", "/@connections/slow", &frame);
                assert_eq!(hub.call("POST", "/@connections/quick", &frame).status, 200);
                assert_eq!(inbox.take(10).await.len(), 1);
            }
            assert_eq!(hub.call("POST", "/@connections/slow", &frame).status, 410);
            assert_eq!(hub.len(), 1);
            let mut waiting = 0;
            loop {
                match stalled.take(1000).await.len() {
                    0 => break,
                    taken => waiting += taken,
                }
            }
            assert_eq!(waiting, fit);
        }
    }
}
