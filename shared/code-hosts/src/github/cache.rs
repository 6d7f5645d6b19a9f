//! Responses that are read again under the condition that they have changed. GitHub does not count a request whose
//! response is unchanged: <https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api>.

use super::http::{Answer, Call, Http, RequestError};
use crate::Secret;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of responses. The one that was not used for the longest time is replaced.
const MAX_RESPONSES: usize = 256;

/// Responses of all hosts to this process.
#[derive(Clone, Default)]
pub(crate) struct ResponseCache(Arc<Mutex<Responses>>);

#[derive(Default)]
struct Responses {
    by_key: BTreeMap<Key, (u64, Answer)>,
    /// Grows with every use.
    uses: u64,
}

/// What one credential may see is not shown to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    credential: Secret,
    url: String,
}

impl ResponseCache {
    fn get(&self, key: &Key) -> Option<Answer> {
        let mut responses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        responses.uses += 1;
        let uses = responses.uses;
        let (used, answer) = responses.by_key.get_mut(key)?;
        *used = uses;
        Some(answer.clone())
    }

    fn insert(&self, key: Key, answer: Answer) {
        let mut responses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        responses.uses += 1;
        let uses = responses.uses;
        responses.by_key.insert(key, (uses, answer));
        if responses.by_key.len() > MAX_RESPONSES {
            let oldest = responses.by_key.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                responses.by_key.remove(&oldest);
            }
        }
    }
}

impl fmt::Debug for ResponseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseCache")
    }
}

impl Http {
    /// As [`Http::send`], for a request that only reads and is often repeated.
    pub(super) async fn read(&self, call: Call<'_>) -> Result<Answer, RequestError> {
        let key = Key { credential: self.identity(), url: self.url(&call) };
        let known = self.responses.get(&key);
        let etag = known.as_ref().and_then(|known| known.etag.clone());
        match (self.send(&call.unless(etag)).await, known) {
            (Err(error), Some(known)) if error.status == Some(304) => Ok(known),
            (Ok(answer), _) => {
                if answer.etag.is_some() {
                    self.responses.insert(key, answer.clone());
                }
                Ok(answer)
            }
            (failed, _) => failed,
        }
    }
}
