//! Cost of messages to an agent: delivery, and the worker's waiting for them.

use crate::counts::{Count, Counts};
use crate::model::{Item, assumed, open_socket_hour, push};
use crate::quotas;
use crate::usage::Usage;

/// A million messages, by step and in total. The worker's waiting is not included.
pub fn million_messages(counts: &Counts) -> Vec<Item> {
    let unobserved = Usage::broadcast(&counts.broadcast_without_subscribers);
    let sent = Usage::request(&counts.message_sent) + unobserved;
    let receipt = |count: &Count| Usage::request(count) + unobserved;
    let pulled = |count: &Count| Usage::pull(count, 0.0) + unobserved;
    vec![
        Item { name: "sent", usage: sent * 1e6 },
        Item { name: "pulled", usage: pulled(&counts.message_pulled) * 1e6 },
        Item { name: "one receipt", usage: receipt(&counts.messages_acknowledged) * 1e6 },
        Item { name: "**total: sent, pulled, three receipts**", usage: round_trip(counts) * 1e6 },
        Item {
            name: "OmoiOS mode: sent, pulled",
            usage: (sent + pulled(&counts.message_pulled_auto_ack)) * 1e6,
        },
        Item { name: "additional, if one viewer watches every step", usage: push(counts) * EVENTS * 1e6 },
    ]
}

/// Events per message: `queued`, `fetched`, `delivered`, `started`, `completed`.
const EVENTS: f64 = 5.0;
/// The worker sends `delivered` with `started`, and later `completed`.
const RECEIPT_REQUESTS: f64 = 2.0;
/// One for each request: a batch of events is broadcast as a whole.
const BROADCASTS: f64 = 4.0;

fn round_trip(counts: &Counts) -> Usage {
    let count = &counts.message_round_trip;
    let sent = Usage::request(&counts.message_sent);
    let pulled = Usage::pull(&counts.message_pulled, 0.0);
    let receipts = Usage::request(&counts.messages_acknowledged) * RECEIPT_REQUESTS;
    let broadcasts = Usage::broadcast(&counts.broadcast_without_subscribers) * BROADCASTS;
    // Requests and durations are summed over the steps. Storage was counted for the whole round trip, including the
    // check that a pull makes before it waits.
    let steps = sent + pulled + receipts + broadcasts;
    let Usage { write_units, read_units, queue_requests, .. } = Usage::storage(count);
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    let bytes_out = count.bytes_out as f64;
    let pull_milliseconds = steps.pull_milliseconds + assumed::SECOND_CALL_MS;
    Usage { write_units, read_units, queue_requests, bytes_out, pull_milliseconds, ..steps }
}

/// A way for a worker to receive messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub name: String,
    /// Usage of an hour without messages.
    pub hour: Usage,
    /// Average time until the worker requests a message.
    pub delay_ms: f64,
    /// Maximum of the same, without failures.
    pub longest_delay_ms: f64,
}

impl Way {
    /// Requests and frames per hour.
    pub fn requests(&self) -> f64 {
        self.hour.http_requests + self.hour.socket_messages
    }

    /// Concurrent functions per sandbox.
    pub fn functions(&self) -> f64 {
        (self.hour * (1.0 / 3600.0)).functions()
    }
}

/// All compared ways.
pub fn ways(counts: &Counts) -> Vec<Way> {
    vec![
        polls(counts, 0.0, assumed::OMOIOS_POLL_INTERVAL_SECS),
        polls(counts, 0.0, 5.0),
        default_polls(counts),
        polls(counts, 5.0, assumed::OMOIOS_POLL_INTERVAL_SECS),
        polls(counts, 5.0, 0.0),
        polls(counts, 10.0, 0.0),
        polls(counts, 20.0, 0.0),
        on_a_socket(counts),
    ]
}

/// The behaviour of an OmoiOS worker, which does not set `wait`.
pub fn default_polls(counts: &Counts) -> Way {
    let way = polls(counts, assumed::DEFAULT_WAIT_SECS, assumed::OMOIOS_POLL_INTERVAL_SECS);
    Way { name: format!("**{}**, the default", way.name), ..way }
}

/// Repeated pulls that wait for `wait_secs`, with a pause of `pause_secs` in between.
fn polls(counts: &Counts, wait_secs: f64, pause_secs: f64) -> Way {
    let count = if wait_secs > 0.0 { &counts.waiting_pull } else { &counts.empty_pull };
    // A longer wait rechecks the table in between.
    let rechecks = (wait_secs / assumed::RECHECK_INTERVAL_SECS).ceil() - 1.0;
    let recheck = Usage::storage(&counts.waiting_pull) + Usage::storage(&counts.empty_pull) * -1.0;
    let pull = Usage::pull(count, wait_secs) + recheck * rechecks.max(0.0);
    let every_ms = pull.pull_milliseconds + assumed::ROUND_TRIP_MS + pause_secs * 1e3;
    let waiting_ms = wait_secs * 1e3;
    // A message that arrives outside of the wait is found by the next pull.
    let between_waits_ms = every_ms - waiting_ms;
    let delay_ms = (waiting_ms * assumed::WAKE_UP_MS + between_waits_ms * between_waits_ms / 2.0) / every_ms;
    Way {
        name: match pause_secs {
            0.0 => format!("`wait={wait_secs}`, no pause"),
            _ => format!("`wait={wait_secs}`, then a pause of {pause_secs} s"),
        },
        hour: pull * (3_600_000.0 / every_ms),
        delay_ms,
        longest_delay_ms: between_waits_ms.max(assumed::WAKE_UP_MS),
    }
}

/// A socket that subscribes only to messages, with a short pull after each notification and at a fixed interval.
pub fn on_a_socket(counts: &Counts) -> Way {
    let polls = Usage::pull(&counts.empty_pull, 0.0) * (3600.0 / assumed::POLL_INTERVAL_SECS);
    let pings = Usage::frame(&counts.socket_ping) * (3600.0 / assumed::PING_INTERVAL_SECS);
    // Lambda polls the stream; then the broadcast runs, and the notification and the pull each travel once.
    let stream_ms = 1e3 / quotas::POLLS_OF_A_SHARD;
    let delivery_ms = assumed::BROADCAST_MS + assumed::PUSH_MS + assumed::ROUND_TRIP_MS;
    Way {
        name: format!("a socket, and `wait=0` every {} s", assumed::POLL_INTERVAL_SECS),
        hour: open_socket_hour(counts) + polls + pings,
        delay_ms: stream_ms / 2.0 + delivery_ms,
        longest_delay_ms: stream_ms + delivery_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_wait_needs_fewer_requests_and_more_functions() {
        let counts = Counts::committed();
        let ways = ways(&counts);
        let [often, _, default, _, five, ten, twenty, socket] = &ways[..] else { panic!("{ways:?}") };
        for pair in [often, default, five, ten, twenty].windows(2) {
            assert!(pair[0].requests() > pair[1].requests(), "{pair:?}");
            assert!(pair[0].functions() < pair[1].functions(), "{pair:?}");
            assert!(pair[0].hour.usd() > pair[1].hour.usd(), "{pair:?}");
        }
        assert!(twenty.functions() < 1.0 && socket.functions() < 0.01);
        assert!(socket.hour.usd() * 10.0 < twenty.hour.usd());
    }

    #[test]
    fn delays_match_manual_calculation() {
        let counts = Counts::committed();
        let often = polls(&counts, 0.0, 0.5);
        // 25 ms in the function, 50 ms on the network, 500 ms of pause; half of the sum on average.
        assert_eq!((often.delay_ms, often.longest_delay_ms), (287.5, 575.0));
        let socket = on_a_socket(&counts);
        // 250 ms of the stream, 15 of the broadcast, 10 of the push, 50 on the network.
        assert_eq!((socket.delay_ms, socket.longest_delay_ms), (200.0, 325.0));
    }
}
