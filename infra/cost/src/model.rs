//! Counts times prices.
//!
//! What could be counted was counted. The rest is assumed, and every assumption is a constant of `assumed` with its
//! reason.

use crate::counts::{Count, Counts};
use crate::usage::Usage;

/// What nobody can count before it runs on AWS.
pub mod assumed {
    /// A function's memory. It comes with a seventh of a core.
    pub const MEMORY_GB: f64 = 0.25;
    /// A warm ingest: one transaction, which takes DynamoDB about 10 ms, and the work around it.
    pub const INGEST_MS: f64 = 20.0;
    /// One more call to the table.
    pub const SECOND_CALL_MS: f64 = 8.0;
    /// A broadcast without its pushes: one small read, and the work around it.
    pub const BROADCAST_MS: f64 = 15.0;
    /// A push that a broadcast waits for: a request to API Gateway and back.
    pub const PUSH_MS: f64 = 10.0;
    /// A socket that opens or closes: a transaction and an update, one after the other.
    pub const SOCKET_MS: f64 = 30.0;
    /// What an invocation logs: the platform's lines at its start and end, and our line with metrics.
    pub const LOG_BYTES: f64 = 900.0;
    /// Which part of the requests X-Ray traces, by its default rule (and one a second, which is left out here).
    pub const TRACED: f64 = 0.05;
    /// API Gateway ends a socket after two hours, so in each hour half of it opens and half of it closes.
    pub const SOCKETS_AN_HOUR: f64 = 0.5;
    /// What a busy agent tells: the figure that the default rate limit was chosen by (`edge::plane::Settings`).
    pub const EVENTS_A_SECOND: f64 = 2.0;
    /// A heartbeat every 30 s.
    pub const HEARTBEATS_AN_HOUR: f64 = 120.0;
    /// The memory of `messages-pull`, the least that Lambda has: it mostly waits, and memory is paid by the second.
    pub const PULL_MEMORY_GB: f64 = 0.125;
    /// A warm pull that finds nothing: one read, which takes DynamoDB about 5 ms, and work that takes twice as long as
    /// an ingest's, with half of its processor.
    pub const PULL_MS: f64 = 25.0;
    /// What a request takes beside its function: the way through API Gateway and the network, there and back, on a
    /// connection that is open.
    pub const ROUND_TRIP_MS: f64 = 50.0;
    /// From a message that is stored to a function that is woken: a call to SQS, and SQS's answer to who waits. Nobody
    /// has measured it.
    pub const BELL_MS: f64 = 30.0;
    /// The wait of a pull that does not say (`contract::messages::DEFAULT_WAIT_SECS`; a test compares them).
    pub const DEFAULT_WAIT_SECS: f64 = 2.0;
    /// How long a pull waits before it looks again (`app::messages::pull::LONGEST_SILENCE`; a test compares them).
    pub const LONGEST_SILENCE_SECS: f64 = 5.0;
    /// What an OmoiOS worker sleeps between two pulls (its `POLL_INTERVAL`).
    pub const OMOIOS_PAUSE_SECS: f64 = 0.5;
    /// How often a worker with a socket looks all the same, in case a bell was lost.
    pub const LOOK_EVERY_SECS: f64 = 30.0;
    /// How often it says `ping`: API Gateway closes a socket after ten silent minutes.
    pub const PING_EVERY_SECS: f64 = 300.0;
    /// A frame that comes in and is answered without a look at the table: mostly the answer's way (`PUSH_MS`).
    pub const FRAME_MS: f64 = 15.0;
}

/// Something with a price.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What.
    pub name: &'static str,
    /// What it takes.
    pub usage: Usage,
}

/// A million events, stored and offered to whoever listens.
pub fn million_events(counts: &Counts) -> Vec<Item> {
    let nobody = Usage::broadcast(&counts.broadcast_to_nobody);
    let batch = |count: &Count, size: f64| (Usage::request(count) + nobody) * (1e6 / size);
    let push = a_push(counts) * 1e6;
    vec![
        Item { name: "one by one", usage: batch(&counts.ingest_one_event, 1.0) },
        Item { name: "in batches of 2", usage: batch(&counts.ingest_batch_of_2, 2.0) },
        Item { name: "in batches of 25", usage: batch(&counts.ingest_batch_of_25, 25.0) },
        Item { name: "each pushed to one viewer: more", usage: push },
        Item { name: "one by one, among many processes: more", usage: an_event_behind(counts) * 1e6 },
    ]
}

/// An event to one socket: what it takes more than an event that nobody wants.
pub fn a_push(counts: &Counts) -> Usage {
    Usage::broadcast(&counts.push_to_one) + Usage::broadcast(&counts.broadcast_to_nobody) * -1.0
}

/// What it takes more to store a batch where another process wrote since this one looked: a look.
pub fn a_batch_behind(counts: &Counts) -> Usage {
    behind(&counts.batch_after_another_process, &counts.ingest_batch_of_2)
}

/// The same for a single event.
pub fn an_event_behind(counts: &Counts) -> Usage {
    behind(&counts.one_event_after_another_process, &counts.ingest_one_event)
}

fn behind(late: &Count, usual: &Count) -> Usage {
    let table = Usage::storage(late) + Usage::storage(usual) * -1.0;
    Usage { milliseconds: assumed::SECOND_CALL_MS, ..table }
}

/// An hour of a sandbox, and of somebody who watches it.
pub fn hours(counts: &Counts) -> Vec<Item> {
    let idle = idle_hour(counts);
    let nobody = Usage::broadcast(&counts.broadcast_to_nobody);
    let events = assumed::EVENTS_A_SECOND * 3600.0;
    let busy = |count: &Count, size: f64| idle + (Usage::request(count) + nobody) * (events / size);
    let open = open_socket_hour(counts);
    let push = a_push(counts);
    vec![
        Item { name: "idle: heartbeats only", usage: idle },
        Item { name: "busy, every event a request", usage: busy(&counts.ingest_one_event, 1.0) },
        Item { name: "busy, batches of 2 (every second)", usage: busy(&counts.ingest_batch_of_2, 2.0) },
        Item { name: "busy, batches of 25 (every 12 s)", usage: busy(&counts.ingest_batch_of_25, 25.0) },
        Item { name: "a viewer of an idle one: more", usage: open + push * assumed::HEARTBEATS_AN_HOUR },
        Item {
            name: "a viewer of a busy one: more",
            usage: open + push * (events + assumed::HEARTBEATS_AN_HOUR),
        },
    ]
}

/// A socket that is open for an hour, with its share of opening and closing.
pub fn open_socket_hour(counts: &Counts) -> Usage {
    let socket = Usage::socket(&counts.socket_opens) + Usage::socket(&counts.socket_closes);
    Usage { socket_minutes: 60.0, ..Usage::default() } + socket * assumed::SOCKETS_AN_HOUR
}

fn idle_hour(counts: &Counts) -> Usage {
    let beats = assumed::HEARTBEATS_AN_HOUR;
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    let bytes_out = counts.idle_hour.bytes_out as f64;
    Usage {
        http_requests: beats,
        invocations: 2.0 * beats,
        milliseconds: beats * (assumed::INGEST_MS + assumed::BROADCAST_MS),
        bytes_out,
        ..Usage::storage(&counts.idle_hour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cheaper() {
        let items = million_events(&Counts::committed());
        assert!(items[0].usage.usd() > 5.0 * items[2].usage.usd());
    }
}
