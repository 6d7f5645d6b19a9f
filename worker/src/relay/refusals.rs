//! Which refused pushes are reported. An agent that tries again and again must not fill the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A reference is reported at most this often.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of references that are reported in the interval.
const MAX_REFERENCES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<String, Instant>>);

impl Refusals {
    /// Whether a refusal is reported.
    pub(super) fn report(&self, name: &str) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        reported.retain(|_, at| now.duration_since(*at) < INTERVAL);
        if reported.len() >= MAX_REFERENCES || reported.contains_key(name) {
            return false;
        }
        reported.insert(name.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn each_reference_is_reported_once_a_minute_and_their_number_is_limited() {
        let refusals = Refusals::default();
        assert!(refusals.report("refs/heads/main"));
        assert!(!refusals.report("refs/heads/main"));
        let reported = (0..100).filter(|number| refusals.report(&format!("refs/tags/{number}"))).count();
        assert_eq!(reported, MAX_REFERENCES - 1);
        advance(INTERVAL).await;
        assert!(refusals.report("refs/heads/main"));
    }
}
