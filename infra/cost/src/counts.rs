//! What the plane does for one of each thing, as `tests/it/cost.rs` counted it.

use crate::prices;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was counted, in `infra/cost/counts.json`.
pub const FILE: &str = "infra/cost/counts.json";

/// Calls and billed units of one thing that the plane does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// `TransactWriteItems` → 1.
    pub calls: BTreeMap<String, u32>,
    /// DynamoDB write request units.
    pub write_units: f64,
    /// DynamoDB read request units.
    pub read_units: f64,
    /// Bodies of requests.
    pub bytes_in: u64,
    /// Bodies of answers, and frames: what leaves AWS.
    pub bytes_out: u64,
}

/// Everything that is counted. The names are those of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// One event in a request of its own, to a process that knows the head.
    pub ingest_one_event: Count,
    /// A numbered batch of one event.
    pub ingest_batch_of_1: Count,
    /// A numbered batch of two.
    pub ingest_batch_of_2: Count,
    /// A numbered batch of 25.
    pub ingest_batch_of_25: Count,
    /// A batch of two, as the first request of a process for this sandbox: it reads the head.
    pub batch_first_of_a_process: Count,
    /// A batch of two after another process wrote: by its number the process sees that it is behind, and reads the
    /// head.
    pub batch_after_another_process: Count,
    /// One event after another process wrote, not for the first time: the process knows that it is not alone, and reads
    /// the head.
    pub one_event_after_another_process: Count,
    /// One event with 300 KB of data that cannot be compressed: it stands apart, in the same transaction.
    pub ingest_large_data: Count,
    /// One event with an `Idempotency-Key`.
    pub ingest_with_a_key: Count,
    /// A batch that was stored before.
    pub repeat_of_a_batch: Count,
    /// The broadcast of one event that nobody wants.
    pub broadcast_to_nobody: Count,
    /// The broadcast of one event to one socket, by a process that knows who listens.
    pub push_to_one: Count,
    /// The same after somebody subscribed: the process asks again who listens.
    pub push_after_a_stamp_moved: Count,
    /// 120 heartbeats of a sandbox that nobody watches: 120 requests and 120 broadcasts.
    pub idle_hour: Count,
    /// A socket opens, with a token, for one sandbox.
    pub socket_opens: Count,
    /// It closes.
    pub socket_closes: Count,
    /// It says `ping`, and is answered.
    pub socket_ping: Count,
    /// A sandbox is registered.
    pub sandbox_registered: Count,
    /// A message is sent to a sandbox whose mailbox is there.
    pub message_sent: Count,
    /// A pull without a wait that is handed one message, to be confirmed by receipts.
    pub message_pulled: Count,
    /// The same as OmoiOS workers do it: what is handed out is confirmed.
    pub message_handed_over: Count,
    /// A receipt that confirms one message.
    pub messages_acknowledged: Count,
    /// A pull without a wait that finds nothing.
    pub empty_pull: Count,
    /// A pull that waits, at a mailbox that is there, and finds nothing.
    pub waiting_pull: Count,
    /// A message and all of its five events: sent while a pull waits, handed out, `delivered`, `started` and
    /// `completed` in a request each, and five broadcasts that nobody hears.
    pub message_round_trip: Count,
}

impl Counts {
    /// What was counted last.
    pub fn committed() -> Self {
        let text = include_str!("../counts.json");
        serde_json::from_str(text)
            .expect("counts.json is what the test wrote; run it again to see what it should say")
    }

    /// Each with its name in the file.
    pub fn rows(&self) -> Vec<(&'static str, &Count)> {
        vec![
            ("ingest_one_event", &self.ingest_one_event),
            ("ingest_batch_of_1", &self.ingest_batch_of_1),
            ("ingest_batch_of_2", &self.ingest_batch_of_2),
            ("ingest_batch_of_25", &self.ingest_batch_of_25),
            ("batch_first_of_a_process", &self.batch_first_of_a_process),
            ("batch_after_another_process", &self.batch_after_another_process),
            ("one_event_after_another_process", &self.one_event_after_another_process),
            ("ingest_large_data", &self.ingest_large_data),
            ("ingest_with_a_key", &self.ingest_with_a_key),
            ("repeat_of_a_batch", &self.repeat_of_a_batch),
            ("broadcast_to_nobody", &self.broadcast_to_nobody),
            ("push_to_one", &self.push_to_one),
            ("push_after_a_stamp_moved", &self.push_after_a_stamp_moved),
            ("idle_hour", &self.idle_hour),
            ("socket_opens", &self.socket_opens),
            ("socket_closes", &self.socket_closes),
            ("socket_ping", &self.socket_ping),
            ("sandbox_registered", &self.sandbox_registered),
            ("message_sent", &self.message_sent),
            ("message_pulled", &self.message_pulled),
            ("message_handed_over", &self.message_handed_over),
            ("messages_acknowledged", &self.messages_acknowledged),
            ("empty_pull", &self.empty_pull),
            ("waiting_pull", &self.waiting_pull),
            ("message_round_trip", &self.message_round_trip),
        ]
    }

    /// What `now` does more or less than this, a sentence for each.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = self.rows().into_iter().zip(now.rows());
        pairs
            .filter(|((_, before), (_, now))| before != now)
            .map(|((name, before), (_, now))| before.told(name, now))
            .collect()
    }

    /// As in the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and names can be written");
        text.push('\n');
        text
    }
}

impl Count {
    /// This and another one.
    pub fn add(&mut self, other: &Self) {
        for (operation, calls) in &other.calls {
            *self.calls.entry(operation.clone()).or_default() += calls;
        }
        self.write_units += other.write_units;
        self.read_units += other.read_units;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// How many calls there were to operations of these names.
    pub fn calls_to(&self, operations: &[&str]) -> f64 {
        let named = self.calls.iter().filter(|(operation, _)| operations.contains(&operation.as_str()));
        f64::from(named.map(|(_, times)| times).sum::<u32>())
    }

    /// To whatever operation.
    pub fn all_calls(&self) -> f64 {
        f64::from(self.calls.values().sum::<u32>())
    }

    fn told(&self, name: &str, now: &Self) -> String {
        let mut parts = Vec::new();
        if self.calls != now.calls {
            parts.push(format!("calls were {:?}, are {:?}", self.calls, now.calls));
        }
        for (unit, was, is) in [
            ("write units", self.write_units, now.write_units),
            ("read units", self.read_units, now.read_units),
        ] {
            if was != is {
                parts.push(format!("{unit} were {was}, are {is}"));
            }
        }
        for (way, was, is) in [("in", self.bytes_in, now.bytes_in), ("out", self.bytes_out, now.bytes_out)] {
            if was != is {
                parts.push(format!("bytes {way} were {was}, are {is}"));
            }
        }
        let price = |count: &Self| {
            count.write_units * prices::WRITE_UNITS.usd_each()
                + count.read_units * prices::READ_UNITS.usd_each()
        };
        let more = (price(now) - price(self)) * 1e6;
        format!("{name}: {}. A million of them: ${more:+.2} for the table.", parts.join("; "))
    }
}
