//! Open sockets, and the management API's way to them: `POST` and `DELETE` on `/@connections/{id}`.

use super::connector::Reply;
use bytes::Bytes;
use domain::ConnectionId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc;

/// How many frames may wait for a reader. One that is further behind has stopped reading: it is dropped, and
/// comes back for the rest when it reads again.
pub const MAX_WAITING_FRAMES: usize = 1024;

/// All open sockets.
#[derive(Debug, Default)]
pub struct Hub(Mutex<HashMap<String, mpsc::Sender<Bytes>>>);

/// What is to be sent on one socket. It ends when the socket is to be closed.
pub type Inbox = mpsc::Receiver<Bytes>;

impl Hub {
    /// A socket opens: frames for it come out of the inbox.
    pub fn register(&self, id: &ConnectionId) -> Inbox {
        let (sender, inbox) = mpsc::channel(MAX_WAITING_FRAMES);
        self.sockets().insert(id.to_string(), sender);
        inbox
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

    /// Closes all, so that the process can end.
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
            (_, Some(socket)) => socket.try_send(Bytes::copy_from_slice(body)).is_ok(),
        };
        if delivered {
            return Reply { status: 200, body: Vec::new() };
        }
        // Whoever has stopped reading is dropped here, and is gone from now on.
        sockets.remove(&id);
        let body = serde_json::json!({"__type": "GoneException", "message": "nobody is there"});
        Reply { status: 410, body: body.to_string().into_bytes() }
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Bytes>>> {
        self.0.lock().expect("no code panics while it holds the sockets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_stops_is_dropped_and_the_others_are_not() {
        let hub = Hub::default();
        let (slow, quick) = (ConnectionId::parse("slow").unwrap(), ConnectionId::parse("quick").unwrap());
        let (mut stalled, mut inbox) = (hub.register(&slow), hub.register(&quick));
        for _ in 0..=MAX_WAITING_FRAMES {
            hub.call("POST", "/@connections/slow", b"x");
            assert_eq!(hub.call("POST", "/@connections/quick", b"x").status, 200);
            assert!(inbox.try_recv().is_ok());
        }
        assert_eq!(hub.call("POST", "/@connections/slow", b"x").status, 410);
        assert_eq!(hub.len(), 1);
        let mut waiting = 0;
        while stalled.try_recv().is_ok() {
            waiting += 1;
        }
        assert_eq!(waiting, MAX_WAITING_FRAMES);
        assert!(matches!(stalled.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    }
}
