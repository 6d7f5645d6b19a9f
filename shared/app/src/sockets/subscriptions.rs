//! A cache of subscribers, valid while the subscription version of their realm does not change.
//!
//! The subscription version of a realm increments with every subscription change in it. A broadcast reads it
//! consistently, after the event was stored. So a subscription that was confirmed before the event was stored is
//! always found, and a broadcast costs one small read instead of a query for each topic.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::Store;
use store::connections::Subscriber;

/// Maximum number of cached topics of a realm. Beyond it, the cache of the realm is cleared.
const MAX_TOPICS: usize = 20_000;

#[derive(Debug, Default)]
pub struct Subscriptions(Mutex<HashMap<String, Realm>>);

#[derive(Debug, Default)]
struct Realm {
    version: u64,
    topics: HashMap<String, Arc<[Subscriber]>>,
}

impl Subscriptions {
    /// The subscribers of a topic, at least as new as `version`.
    pub(crate) async fn of(
        &self,
        store: &Store,
        realm: &str,
        version: u64,
        topic: &str,
    ) -> Result<Arc<[Subscriber]>, Error> {
        if let Some(cached) = self.get(realm, version, topic) {
            return Ok(cached);
        }
        let subscribers: Arc<[Subscriber]> = store.subscribers(realm, topic).await?.into();
        self.insert(realm, version, topic, &subscribers);
        Ok(subscribers)
    }

    fn get(&self, realm: &str, version: u64, topic: &str) -> Option<Arc<[Subscriber]>> {
        let mut realms = self.0.lock().expect("no code panics while it holds the subscriptions");
        let cached = realms.get_mut(realm)?;
        if cached.version < version {
            *cached = Realm { version, topics: HashMap::new() };
        }
        cached.topics.get(topic).cloned()
    }

    fn insert(&self, realm: &str, version: u64, topic: &str, subscribers: &Arc<[Subscriber]>) {
        let mut realms = self.0.lock().expect("no code panics while it holds the subscriptions");
        let cached =
            realms.entry(realm.to_owned()).or_insert_with(|| Realm { version, topics: HashMap::new() });
        // Another task has seen a newer version in the meantime, and these subscribers may be older than that.
        if cached.version != version {
            return;
        }
        if cached.topics.len() >= MAX_TOPICS {
            cached.topics.clear();
        }
        cached.topics.insert(topic.to_owned(), subscribers.clone());
    }
}
