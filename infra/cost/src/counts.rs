//! AWS calls and billed units per operation of the plane, counted by `tests/it/cost.rs`.

use crate::prices;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const FILE: &str = "infra/cost/counts.json";

/// AWS calls and billed units of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Calls by AWS operation: `TransactWriteItems` → 1.
    pub calls: BTreeMap<String, u32>,
    /// DynamoDB write request units.
    pub write_units: f64,
    /// DynamoDB read request units.
    pub read_units: f64,
    /// Size of request bodies.
    pub bytes_in: u64,
    /// Size of response bodies and socket frames, which is billed as data transfer out.
    pub bytes_out: u64,
}

/// All counted operations. Field names are the keys of the JSON file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// One event in its own request, to a process whose cached sandbox is current.
    pub ingest_one_event: Count,
    /// A numbered batch of one event.
    pub ingest_batch_of_1: Count,
    pub ingest_batch_of_2: Count,
    pub ingest_batch_of_25: Count,
    /// A batch of two, as the first request of a process for this sandbox: it reads the sandbox.
    pub first_batch_of_a_process: Count,
    /// A batch of two after another process wrote. The batch number shows that the cache is stale, so the process reads
    /// the sandbox first.
    pub batch_after_another_process: Count,
    /// One event after another process wrote, and not for the first time. The process expects a stale cache and reads the
    /// sandbox first.
    pub one_event_after_another_process: Count,
    /// One event with 300 KB of incompressible data, which is stored as a separate item in the same transaction.
    pub ingest_large_data: Count,
    /// One event with an `Idempotency-Key`.
    pub ingest_with_idempotency_key: Count,
    /// A batch that is already stored.
    pub retried_batch: Count,
    /// Broadcast of one event that no socket subscribes to.
    pub broadcast_without_subscribers: Count,
    /// Broadcast of one event to one socket, with cached subscriptions.
    pub broadcast_to_one_socket: Count,
    /// As above, after a subscription changed: the process reads the subscriptions again.
    pub broadcast_after_subscription_change: Count,
    /// 120 heartbeats of a sandbox without subscribers: 120 requests and 120 broadcasts.
    pub idle_hour: Count,
    /// An authenticated socket for one sandbox opens.
    pub socket_opens: Count,
    pub socket_closes: Count,
    /// A `ping` frame and its answer.
    pub socket_ping: Count,
    pub sandbox_registered: Count,
    /// A piece of 2 MiB of a file that a worker keeps of its workspace.
    pub workspace_piece: Count,
    /// The request that makes uploaded files the kept work of a task.
    pub workspace_kept: Count,
    /// A message to a sandbox whose mailbox exists.
    pub message_sent: Count,
    /// A pull without a wait that returns one message, to be confirmed by receipts.
    pub message_pulled: Count,
    /// As above, in the mode of OmoiOS workers: returning a message acknowledges it.
    pub message_pulled_auto_ack: Count,
    /// A receipt that confirms one message.
    pub messages_acknowledged: Count,
    /// A pull without a wait that returns nothing.
    pub empty_pull: Count,
    /// A pull that waits at an existing mailbox and returns nothing.
    pub waiting_pull: Count,
    /// A message with its five events: sent while a pull waits, fetched, then one request each for `delivered`, `started`
    /// and `completed`, and five broadcasts without subscribers.
    pub message_round_trip: Count,
}

impl Counts {
    /// The counts in the repository.
    pub fn committed() -> Self {
        let text = include_str!("../counts.json");
        serde_json::from_str(text).expect("counts.json was written by tests/it/cost.rs")
    }

    /// All counts with their names in the file.
    pub fn rows(&self) -> Vec<(&'static str, &Count)> {
        vec![
            ("ingest_one_event", &self.ingest_one_event),
            ("ingest_batch_of_1", &self.ingest_batch_of_1),
            ("ingest_batch_of_2", &self.ingest_batch_of_2),
            ("ingest_batch_of_25", &self.ingest_batch_of_25),
            ("first_batch_of_a_process", &self.first_batch_of_a_process),
            ("batch_after_another_process", &self.batch_after_another_process),
            ("one_event_after_another_process", &self.one_event_after_another_process),
            ("ingest_large_data", &self.ingest_large_data),
            ("ingest_with_idempotency_key", &self.ingest_with_idempotency_key),
            ("retried_batch", &self.retried_batch),
            ("broadcast_without_subscribers", &self.broadcast_without_subscribers),
            ("broadcast_to_one_socket", &self.broadcast_to_one_socket),
            ("broadcast_after_subscription_change", &self.broadcast_after_subscription_change),
            ("idle_hour", &self.idle_hour),
            ("socket_opens", &self.socket_opens),
            ("socket_closes", &self.socket_closes),
            ("socket_ping", &self.socket_ping),
            ("sandbox_registered", &self.sandbox_registered),
            ("workspace_piece", &self.workspace_piece),
            ("workspace_kept", &self.workspace_kept),
            ("message_sent", &self.message_sent),
            ("message_pulled", &self.message_pulled),
            ("message_pulled_auto_ack", &self.message_pulled_auto_ack),
            ("messages_acknowledged", &self.messages_acknowledged),
            ("empty_pull", &self.empty_pull),
            ("waiting_pull", &self.waiting_pull),
            ("message_round_trip", &self.message_round_trip),
        ]
    }

    /// One sentence for each count that differs.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = self.rows().into_iter().zip(now.rows());
        pairs
            .filter(|((_, before), (_, now))| before != now)
            .map(|((name, before), (_, now))| before.difference(name, now))
            .collect()
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and names can be written");
        text.push('\n');
        text
    }
}

impl Count {
    pub fn add(&mut self, other: &Self) {
        for (operation, calls) in &other.calls {
            *self.calls.entry(operation.clone()).or_default() += calls;
        }
        self.write_units += other.write_units;
        self.read_units += other.read_units;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// Number of calls to these operations.
    pub fn calls_to(&self, operations: &[&str]) -> f64 {
        let named = self.calls.iter().filter(|(operation, _)| operations.contains(&operation.as_str()));
        f64::from(named.map(|(_, times)| times).sum::<u32>())
    }

    /// Number of calls to all operations.
    pub fn all_calls(&self) -> f64 {
        f64::from(self.calls.values().sum::<u32>())
    }

    fn difference(&self, name: &str, now: &Self) -> String {
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
        for (direction, was, is) in
            [("in", self.bytes_in, now.bytes_in), ("out", self.bytes_out, now.bytes_out)]
        {
            if was != is {
                parts.push(format!("bytes {direction} were {was}, are {is}"));
            }
        }
        let price = |count: &Self| {
            count.write_units * prices::WRITE_UNITS.usd_each()
                + count.read_units * prices::READ_UNITS.usd_each()
        };
        let more = (price(now) - price(self)) * 1e6;
        format!("{name}: {}. DynamoDB cost per million: ${more:+.2}.", parts.join("; "))
    }
}
