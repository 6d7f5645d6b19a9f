//! Who is subscribed to what, remembered for as long as nothing has changed.
//!
//! The stamp of a realm moves with every subscription in it and is read, consistently, after the event was
//! stored. So somebody whose subscription was confirmed before an event was stored is always found, and a
//! broadcast costs one small read instead of a query for each topic.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::Store;
use store::connections::Subscriber;

/// Beyond this many topics of a realm everything is forgotten and read again.
const MAX_TOPICS: usize = 20_000;

/// What this process remembers.
#[derive(Debug, Default)]
pub struct Subscriptions(Mutex<HashMap<String, Realm>>);

#[derive(Debug, Default)]
struct Realm {
    stamp: u64,
    topics: HashMap<String, Arc<[Subscriber]>>,
}

impl Subscriptions {
    /// The subscribers of a topic, at least as new as `stamp`.
    pub(crate) async fn of(
        &self,
        store: &Store,
        realm: &str,
        stamp: u64,
        topic: &str,
    ) -> Result<Arc<[Subscriber]>, Error> {
        if let Some(known) = self.recall(realm, stamp, topic) {
            return Ok(known);
        }
        let subscribers: Arc<[Subscriber]> = store.subscribers(realm, topic).await?.into();
        self.remember(realm, stamp, topic, &subscribers);
        Ok(subscribers)
    }

    fn recall(&self, realm: &str, stamp: u64, topic: &str) -> Option<Arc<[Subscriber]>> {
        let mut realms = self.0.lock().expect("no code panics while it holds the subscriptions");
        let known = realms.get_mut(realm)?;
        if known.stamp < stamp {
            *known = Realm { stamp, topics: HashMap::new() };
        }
        known.topics.get(topic).cloned()
    }

    fn remember(&self, realm: &str, stamp: u64, topic: &str, subscribers: &Arc<[Subscriber]>) {
        let mut realms = self.0.lock().expect("no code panics while it holds the subscriptions");
        let known = realms.entry(realm.to_owned()).or_insert_with(|| Realm { stamp, topics: HashMap::new() });
        // Somebody has seen a newer stamp meanwhile: what was read may be older than that.
        if known.stamp != stamp {
            return;
        }
        if known.topics.len() >= MAX_TOPICS {
            known.topics.clear();
        }
        known.topics.insert(topic.to_owned(), subscribers.clone());
    }
}
