//! Cost model: counts times prices.
//!
//! Everything that can be counted is counted. The rest is assumed, and every assumption is a constant of `assumed` with
//! its reason.

use crate::counts::{Count, Counts};
use crate::usage::Usage;

/// Values that can only be measured on AWS.
pub mod assumed {
    /// Memory of a function. It includes a seventh of a core.
    pub const MEMORY_GB: f64 = 0.25;
    /// A warm ingest: one transaction of about 10 ms, and the work around it.
    pub const INGEST_MS: f64 = 20.0;
    /// Each further call to the table.
    pub const SECOND_CALL_MS: f64 = 8.0;
    /// A broadcast without its pushes: one small read, and the work around it.
    pub const BROADCAST_MS: f64 = 15.0;
    /// A push that a broadcast waits for: a request to API Gateway and back.
    pub const PUSH_MS: f64 = 10.0;
    /// A socket that opens or closes: a transaction, then an update.
    pub const SOCKET_MS: f64 = 30.0;
    /// Log volume of an invocation: Lambda's lines at its start and end, and our metrics line.
    pub const LOG_BYTES: f64 = 900.0;
    /// Share of requests that X-Ray traces by its default rule. The rule's one request per second is ignored.
    pub const TRACED: f64 = 0.05;
    /// API Gateway closes a socket after two hours, so a socket opens and closes every other hour.
    pub const SOCKETS_AN_HOUR: f64 = 0.5;
    /// Events of a busy agent. The default rate limit is based on the same figure (`edge::plane::Settings`).
    pub const EVENTS_A_SECOND: f64 = 2.0;
    /// One heartbeat every 30 s.
    pub const HEARTBEATS_AN_HOUR: f64 = 120.0;
    /// Memory of `messages-pull`: Lambda's minimum, because it mostly waits and memory is billed by time.
    pub const PULL_MEMORY_GB: f64 = 0.125;
    /// A warm pull that returns nothing: one read of about 5 ms, and work that takes twice as long as an ingest's with
    /// half of its processor.
    pub const PULL_MS: f64 = 25.0;
    /// Round trip through API Gateway and the network on an open connection, without the function.
    pub const ROUND_TRIP_MS: f64 = 50.0;
    /// From a stored message to the end of the pull's wait: a call to SQS, and SQS's answer to the waiting call. Not
    /// measured.
    pub const WAKE_UP_MS: f64 = 30.0;
    /// Wait of a pull without the parameter `wait` (`contract::messages::DEFAULT_WAIT_SECS`; a test compares them).
    pub const DEFAULT_WAIT_SECS: f64 = 2.0;
    /// A waiting pull rechecks the table at this interval (`app::messages::pull`; a test compares them).
    pub const RECHECK_INTERVAL_SECS: f64 = 5.0;
    /// Pause of an OmoiOS worker between two pulls (its `POLL_INTERVAL`).
    pub const OMOIOS_POLL_INTERVAL_SECS: f64 = 0.5;
    /// A worker with a socket still pulls at this interval, in case a notification was lost.
    pub const POLL_INTERVAL_SECS: f64 = 30.0;
    /// Interval of its `ping` frames. API Gateway closes a socket after ten idle minutes.
    pub const PING_INTERVAL_SECS: f64 = 300.0;
    /// A client frame that is answered without the table: mostly the push of the answer (`PUSH_MS`).
    pub const FRAME_MS: f64 = 15.0;
}

/// A row of a price table.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub name: &'static str,
    pub usage: Usage,
}

/// A million events, stored and broadcast.
pub fn million_events(counts: &Counts) -> Vec<Item> {
    let unobserved = Usage::broadcast(&counts.broadcast_without_subscribers);
    let batch = |count: &Count, size: f64| (Usage::request(count) + unobserved) * (1e6 / size);
    let pushes = push(counts) * 1e6;
    vec![
        Item { name: "one by one", usage: batch(&counts.ingest_one_event, 1.0) },
        Item { name: "in batches of 2", usage: batch(&counts.ingest_batch_of_2, 2.0) },
        Item { name: "in batches of 25", usage: batch(&counts.ingest_batch_of_25, 25.0) },
        Item { name: "additional, if one viewer watches", usage: pushes },
        Item { name: "additional, one by one with many processes", usage: stale_event(counts) * 1e6 },
    ]
}

/// Additional usage of an event that is pushed to one socket.
pub fn push(counts: &Counts) -> Usage {
    Usage::broadcast(&counts.broadcast_to_one_socket)
        + Usage::broadcast(&counts.broadcast_without_subscribers) * -1.0
}

/// Additional usage of storing a batch when the process's cached sandbox is stale: one read.
pub fn stale_batch(counts: &Counts) -> Usage {
    stale(&counts.batch_after_another_process, &counts.ingest_batch_of_2)
}

/// As [`stale_batch`], for a single event.
pub fn stale_event(counts: &Counts) -> Usage {
    stale(&counts.one_event_after_another_process, &counts.ingest_one_event)
}

fn stale(stale: &Count, current: &Count) -> Usage {
    let table = Usage::storage(stale) + Usage::storage(current) * -1.0;
    Usage { milliseconds: assumed::SECOND_CALL_MS, ..table }
}

/// An hour of a sandbox and of a viewer.
pub fn hours(counts: &Counts) -> Vec<Item> {
    let idle = idle_hour(counts);
    let unobserved = Usage::broadcast(&counts.broadcast_without_subscribers);
    let events = assumed::EVENTS_A_SECOND * 3600.0;
    let busy = |count: &Count, size: f64| idle + (Usage::request(count) + unobserved) * (events / size);
    let open = open_socket_hour(counts);
    let push = push(counts);
    vec![
        Item { name: "idle: heartbeats only", usage: idle },
        Item { name: "busy, every event a request", usage: busy(&counts.ingest_one_event, 1.0) },
        Item { name: "busy, batches of 2 (every second)", usage: busy(&counts.ingest_batch_of_2, 2.0) },
        Item { name: "busy, batches of 25 (every 12 s)", usage: busy(&counts.ingest_batch_of_25, 25.0) },
        Item { name: "additional per viewer, idle", usage: open + push * assumed::HEARTBEATS_AN_HOUR },
        Item {
            name: "additional per viewer, busy",
            usage: open + push * (events + assumed::HEARTBEATS_AN_HOUR),
        },
    ]
}

/// A socket that is open for an hour, including its share of opening and closing.
pub fn open_socket_hour(counts: &Counts) -> Usage {
    let socket = Usage::socket(&counts.socket_opens) + Usage::socket(&counts.socket_closes);
    Usage { socket_minutes: 60.0, ..Usage::default() } + socket * assumed::SOCKETS_AN_HOUR
}

fn idle_hour(counts: &Counts) -> Usage {
    let beats = assumed::HEARTBEATS_AN_HOUR;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
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
    fn batches_are_cheaper_than_single_events() {
        let items = million_events(&Counts::committed());
        assert!(items[0].usage.usd() > 5.0 * items[2].usage.usd());
    }
}
