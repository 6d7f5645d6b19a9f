//! What messages to an agent cost: one on its way, and an hour of waiting for any.

use crate::counts::{Count, Counts};
use crate::model::{Item, a_push, assumed, open_socket_hour};
use crate::quotas;
use crate::usage::Usage;

/// A million messages: steps of their way, and all of it. What a worker spends on waiting is not in it.
pub fn million_messages(counts: &Counts) -> Vec<Item> {
    let nobody = Usage::broadcast(&counts.broadcast_to_nobody);
    let sent = Usage::request(&counts.message_sent) + nobody;
    let told = |count: &Count| Usage::request(count) + nobody;
    let pulled = |count: &Count| Usage::pull(count, 0.0) + nobody;
    vec![
        Item { name: "sent", usage: sent * 1e6 },
        Item { name: "pulled", usage: pulled(&counts.message_pulled) * 1e6 },
        Item { name: "a receipt", usage: told(&counts.messages_acknowledged) * 1e6 },
        Item { name: "**all: sent, pulled, three receipts**", usage: round_trip(counts) * 1e6 },
        Item {
            name: "as OmoiOS does it: sent, pulled",
            usage: (sent + pulled(&counts.message_handed_over)) * 1e6,
        },
        Item { name: "all, each step pushed to one viewer: more", usage: a_push(counts) * EVENTS * 1e6 },
    ]
}

/// `queued`, `fetched`, `delivered`, `started`, `completed`.
const EVENTS: f64 = 5.0;
/// The last three of them are requests of the worker's.
const RECEIPTS: f64 = 3.0;

fn round_trip(counts: &Counts) -> Usage {
    let count = &counts.message_round_trip;
    let sent = Usage::request(&counts.message_sent);
    let pulled = Usage::pull(&counts.message_pulled, 0.0);
    let receipts = Usage::request(&counts.messages_acknowledged) * RECEIPTS;
    let broadcasts = Usage::broadcast(&counts.broadcast_to_nobody) * EVENTS;
    // The steps say how often and how long; what they take was counted as a whole, with the look that a pull takes
    // before it waits.
    let steps = sent + pulled + receipts + broadcasts;
    let Usage { write_units, read_units, queue_requests, .. } = Usage::storage(count);
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    let bytes_out = count.bytes_out as f64;
    let pull_milliseconds = steps.pull_milliseconds + assumed::SECOND_CALL_MS;
    Usage { write_units, read_units, queue_requests, bytes_out, pull_milliseconds, ..steps }
}

/// A way in which a worker learns of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Which.
    pub name: String,
    /// What an hour takes in which none comes.
    pub hour: Usage,
    /// How long a message waits until somebody looks for it, on average.
    pub delay_ms: f64,
    /// The same at worst, while nothing fails.
    pub longest_delay_ms: f64,
}

impl Way {
    /// Requests and frames of an hour.
    pub fn requests(&self) -> f64 {
        self.hour.http_requests + self.hour.socket_messages
    }

    /// Functions that are busy at once, for each sandbox.
    pub fn functions(&self) -> f64 {
        (self.hour * (1.0 / 3600.0)).functions()
    }
}

/// All of them, compared.
pub fn ways(counts: &Counts) -> Vec<Way> {
    vec![
        polls(counts, 0.0, assumed::OMOIOS_PAUSE_SECS),
        polls(counts, 0.0, 5.0),
        default_polls(counts),
        polls(counts, 5.0, assumed::OMOIOS_PAUSE_SECS),
        polls(counts, 5.0, 0.0),
        polls(counts, 10.0, 0.0),
        polls(counts, 20.0, 0.0),
        on_a_socket(counts),
    ]
}

/// What an OmoiOS worker does, which knows nothing of waits.
pub fn default_polls(counts: &Counts) -> Way {
    let way = polls(counts, assumed::DEFAULT_WAIT_SECS, assumed::OMOIOS_PAUSE_SECS);
    Way { name: format!("**{}**, the default", way.name), ..way }
}

/// Pulls that wait for so long, with a pause between.
fn polls(counts: &Counts, wait_secs: f64, pause_secs: f64) -> Way {
    let count = if wait_secs > 0.0 { &counts.waiting_pull } else { &counts.empty_pull };
    // Whoever waits longer looks in between, and waits again.
    let again = (wait_secs / assumed::LONGEST_SILENCE_SECS).ceil() - 1.0;
    let one_more = Usage::storage(&counts.waiting_pull) + Usage::storage(&counts.empty_pull) * -1.0;
    let pull = Usage::pull(count, wait_secs) + one_more * again.max(0.0);
    let every_ms = pull.pull_milliseconds + assumed::ROUND_TRIP_MS + pause_secs * 1e3;
    let waiting_ms = wait_secs * 1e3;
    // Outside of its wait nobody hears a bell, and the message waits for the next look.
    let deaf_ms = every_ms - waiting_ms;
    let delay_ms = (waiting_ms * assumed::BELL_MS + deaf_ms * deaf_ms / 2.0) / every_ms;
    Way {
        name: match pause_secs {
            0.0 => format!("`wait={wait_secs}`, no pause"),
            _ => format!("`wait={wait_secs}`, then a pause of {pause_secs} s"),
        },
        hour: pull * (3_600_000.0 / every_ms),
        delay_ms,
        longest_delay_ms: deaf_ms.max(assumed::BELL_MS),
    }
}

/// A socket that is told of messages and of nothing else; a short pull whenever it rings, and now and then.
pub fn on_a_socket(counts: &Counts) -> Way {
    let looks = Usage::pull(&counts.empty_pull, 0.0) * (3600.0 / assumed::LOOK_EVERY_SECS);
    let pings = Usage::frame(&counts.socket_ping) * (3600.0 / assumed::PING_EVERY_SECS);
    // The stream is looked into so often; then comes the broadcast, the bell's way to the worker, and the pull's back.
    let stream_ms = 1e3 / quotas::POLLS_OF_A_SHARD;
    let way_ms = assumed::BROADCAST_MS + assumed::PUSH_MS + assumed::ROUND_TRIP_MS;
    Way {
        name: format!("a socket, and `wait=0` every {} s", assumed::LOOK_EVERY_SECS),
        hour: open_socket_hour(counts) + looks + pings,
        delay_ms: stream_ms / 2.0 + way_ms,
        longest_delay_ms: stream_ms + way_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_wait_takes_fewer_requests_and_more_functions() {
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
    fn delays_are_what_a_calculation_by_hand_says() {
        let counts = Counts::committed();
        let often = polls(&counts, 0.0, 0.5);
        // 25 ms of a function, 50 ms of the way, 500 ms of sleep; half of it on average.
        assert_eq!((often.delay_ms, often.longest_delay_ms), (287.5, 575.0));
        let socket = on_a_socket(&counts);
        // The stream's 250 ms, 15 for the broadcast, 10 for the push, 50 for the way.
        assert_eq!((socket.delay_ms, socket.longest_delay_ms), (200.0, 325.0));
    }
}
