//! Messages that this worker has pulled and not acknowledged yet.

use contract::messages::MAX_HOLDING;
use domain::MessageId;
use std::sync::{Arc, Mutex};

/// Shared by the inbox, which reports them with each pull, and the supervisor, which acknowledges them. As long as the
/// plane knows that they are held, it does not deliver them again.
#[derive(Debug, Clone, Default)]
pub struct HeldMessages(Arc<Mutex<Vec<MessageId>>>);

impl HeldMessages {
    pub fn insert(&self, id: MessageId) {
        let mut held = self.0.lock().expect("no code panics while it holds the list");
        if !held.contains(&id) {
            held.push(id);
        }
    }

    pub fn remove(&self, id: &MessageId) {
        self.0.lock().expect("no code panics while it holds the list").retain(|held| held != id);
    }

    /// The oldest, as many as a pull can report.
    pub(super) fn ids(&self) -> Vec<MessageId> {
        let held = self.0.lock().expect("no code panics while it holds the list");
        held.iter().take(MAX_HOLDING).cloned().collect()
    }
}
