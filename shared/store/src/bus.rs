//! The EventBridge event bus of the account.

use crate::error::Error;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use domain::backoff::Backoff;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The `source` of all our events on the bus.
pub const SOURCE: &str = "sunaba";
/// Maximum number of entries in one call
/// (<https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html>).
const MAX_ENTRIES: usize = 10;
/// Maximum size of one call. EventBridge allows 256 KB, including names.
const MAX_CALL_BYTES: usize = 240 * 1000;
/// Maximum number of attempts to send entries that the bus rejected.
const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug, Clone)]
pub struct Bus {
    client: aws_sdk_eventbridge::Client,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What rules usually match on, such as `SANDBOX_AGENT_COMPLETED`.
    pub detail_type: String,
    /// A JSON object.
    pub detail: String,
}

impl Notice {
    fn size(&self) -> usize {
        SOURCE.len() + self.detail_type.len() + self.detail.len()
    }
}

/// Delays between attempts to publish entries that the bus has rejected.
const RETRIES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

impl Bus {
    pub fn new(client: aws_sdk_eventbridge::Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into() }
    }

    /// Delivery is at least once: after an error some notices may have been published, and the retry publishes them
    /// again.
    pub async fn publish(&self, notices: &[Notice]) -> Result<(), Error> {
        for call in calls(notices) {
            self.put(call).await?;
        }
        Ok(())
    }

    async fn put(&self, notices: &[Notice]) -> Result<(), Error> {
        let mut entries: Vec<_> = notices.iter().map(|notice| self.entry(notice)).collect();
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(RETRIES.delay(attempt - 1, jitter())).await;
            }
            let put = self.client.put_events().set_entries(Some(entries.clone()));
            let response = put.send().await.map_err(|error| Error::from_sdk("the bus", error))?;
            if response.failed_entry_count() == 0 {
                return Ok(());
            }
            let refused = response.entries().iter().map(|entry| entry.error_code().is_some());
            entries =
                entries.into_iter().zip(refused).filter(|(_, refused)| *refused).map(|(e, _)| e).collect();
        }
        let left = format!("{} entries were rejected", entries.len());
        Err(Error::Unavailable { what: "the bus", code: "failed entries".into(), source: left.into() })
    }

    fn entry(&self, notice: &Notice) -> PutEventsRequestEntry {
        PutEventsRequestEntry::builder()
            .event_bus_name(&self.name)
            .source(SOURCE)
            .detail_type(&notice.detail_type)
            .detail(&notice.detail)
            .build()
    }
}

/// Splits notices into calls within the limits, in order.
fn calls(notices: &[Notice]) -> Vec<&[Notice]> {
    let (mut calls, mut rest) = (Vec::new(), notices);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take(MAX_ENTRIES).take_while(|notice| {
            bytes += notice.size();
            bytes <= MAX_CALL_BYTES
        });
        // A notice that exceeds the limit is sent alone, and the bus rejects it.
        let (call, later) = rest.split_at(fitting.count().max(1));
        calls.push(call);
        rest = later;
    }
    calls
}

/// A random number from 0 to 1. Every hasher of the standard library has its own random keys.
fn jitter() -> f64 {
    let random = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(0);
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_at_most_ten_notices_and_240_kb() {
        let notice = |bytes| Notice { detail_type: "x".into(), detail: "x".repeat(bytes) };
        let sizes = |notices: &[Notice]| calls(notices).iter().map(|call| call.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&vec![notice(10); 23]), [10, 10, 3]);
        assert_eq!(sizes(&vec![notice(32_000); 9]), [7, 2]);
        assert_eq!(sizes(&[notice(10), notice(300_000), notice(10)]), [1, 1, 1]);
        assert!(sizes(&[]).is_empty());
    }
}
