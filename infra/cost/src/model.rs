//! Counts times prices.
//!
//! What could be counted was counted. The rest is assumed, and every assumption is a constant of `assumed` with its
//! reason.

use crate::counts::{Count, Counts};
use crate::prices::{self, Price};
use std::ops::{Add, Mul};

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
}

/// Everything that is billed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Requests of the HTTP API.
    pub http_requests: f64,
    /// Frames of sockets.
    pub socket_messages: f64,
    /// Open sockets, in minutes.
    pub socket_minutes: f64,
    /// Invocations of functions.
    pub invocations: f64,
    /// Their time, all together.
    pub milliseconds: f64,
    /// Of the table.
    pub write_units: f64,
    /// Of the table.
    pub read_units: f64,
    /// What leaves AWS.
    pub bytes_out: f64,
}

/// What a service asks for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// As a column is called.
    pub service: &'static str,
    /// Dollars.
    pub usd: f64,
}

impl Usage {
    /// A request that was counted.
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    pub fn ingest(count: &Count) -> Self {
        Self {
            http_requests: (count.bytes_in as f64 / HTTP_UNIT_BYTES).ceil().max(1.0),
            invocations: 1.0,
            milliseconds: assumed::INGEST_MS,
            bytes_out: count.bytes_out as f64,
            ..Self::table(count)
        }
    }

    /// A broadcast that was counted.
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    pub fn broadcast(count: &Count) -> Self {
        // A frame has at most 32 KB, which is the unit.
        let pushes = f64::from(count.calls.get("PostToConnection").copied().unwrap_or(0));
        Self {
            socket_messages: pushes,
            invocations: 1.0,
            milliseconds: assumed::BROADCAST_MS + pushes * assumed::PUSH_MS,
            bytes_out: count.bytes_out as f64,
            ..Self::table(count)
        }
    }

    /// A socket that opens or closes.
    pub fn socket(count: &Count) -> Self {
        Self { invocations: 1.0, milliseconds: assumed::SOCKET_MS, ..Self::table(count) }
    }

    fn table(count: &Count) -> Self {
        Self { write_units: count.write_units, read_units: count.read_units, ..Self::default() }
    }

    /// Dollars by service.
    pub fn bill(&self) -> [Line; 6] {
        let usd = |units: f64, price: Price| units * price.usd_each();
        let gateway = usd(self.http_requests, prices::HTTP_REQUESTS)
            + usd(self.socket_messages, prices::SOCKET_MESSAGES)
            + usd(self.socket_minutes, prices::SOCKET_MINUTES);
        let gb_seconds = self.milliseconds / 1e3 * assumed::MEMORY_GB;
        let lambda = usd(self.invocations, prices::INVOCATIONS) + usd(gb_seconds, prices::GB_SECONDS);
        let table = usd(self.write_units, prices::WRITE_UNITS) + usd(self.read_units, prices::READ_UNITS);
        [
            Line { service: "API Gateway", usd: gateway },
            Line { service: "Lambda", usd: lambda },
            Line { service: "DynamoDB", usd: table },
            Line { service: "Logs", usd: usd(self.invocations * assumed::LOG_BYTES, prices::LOGS) },
            Line { service: "X-Ray", usd: usd(self.invocations * assumed::TRACED, prices::TRACES) },
            Line { service: "Transfer", usd: usd(self.bytes_out, prices::TRANSFER_OUT) },
        ]
    }

    /// All of it.
    pub fn usd(&self) -> f64 {
        self.bill().iter().map(|line| line.usd).sum()
    }
}

/// Requests of the HTTP API are billed in pieces of this size.
const HTTP_UNIT_BYTES: f64 = 512.0 * 1024.0;

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            http_requests: self.http_requests + other.http_requests,
            socket_messages: self.socket_messages + other.socket_messages,
            socket_minutes: self.socket_minutes + other.socket_minutes,
            invocations: self.invocations + other.invocations,
            milliseconds: self.milliseconds + other.milliseconds,
            write_units: self.write_units + other.write_units,
            read_units: self.read_units + other.read_units,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }
}

impl Mul<f64> for Usage {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self {
            http_requests: self.http_requests * times,
            socket_messages: self.socket_messages * times,
            socket_minutes: self.socket_minutes * times,
            invocations: self.invocations * times,
            milliseconds: self.milliseconds * times,
            write_units: self.write_units * times,
            read_units: self.read_units * times,
            bytes_out: self.bytes_out * times,
        }
    }
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
    let batch = |count: &Count, size: f64| (Usage::ingest(count) + nobody) * (1e6 / size);
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
    let table = Usage::table(late) + Usage::table(usual) * -1.0;
    Usage { milliseconds: assumed::SECOND_CALL_MS, ..table }
}

/// An hour of a sandbox, and of somebody who watches it.
pub fn hours(counts: &Counts) -> Vec<Item> {
    let idle = idle_hour(counts);
    let nobody = Usage::broadcast(&counts.broadcast_to_nobody);
    let events = assumed::EVENTS_A_SECOND * 3600.0;
    let busy = |count: &Count, size: f64| idle + (Usage::ingest(count) + nobody) * (events / size);
    let socket = Usage::socket(&counts.socket_opens) + Usage::socket(&counts.socket_closes);
    let open = Usage { socket_minutes: 60.0, ..Usage::default() } + socket * assumed::SOCKETS_AN_HOUR;
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

fn idle_hour(counts: &Counts) -> Usage {
    let beats = assumed::HEARTBEATS_AN_HOUR;
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    let bytes_out = counts.idle_hour.bytes_out as f64;
    Usage {
        http_requests: beats,
        invocations: 2.0 * beats,
        milliseconds: beats * (assumed::INGEST_MS + assumed::BROADCAST_MS),
        bytes_out,
        ..Usage::table(&counts.idle_hour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_what_a_calculation_by_hand_says() {
        let count =
            Count { write_units: 4.0, read_units: 2.0, bytes_in: 600, bytes_out: 0, ..Count::default() };
        let million = Usage::ingest(&count) * 1e6;
        let usd: Vec<String> = million.bill().iter().map(|line| format!("{:.3}", line.usd)).collect();
        // A request each; 0.20 for invocations and 20 ms of a quarter GB, 5,000 GB-seconds; 4 units at 0.625 and 2 at
        // 0.125; 0.9 GB of logs; 50,000 traces.
        assert_eq!(usd, ["1.000", "0.267", "2.750", "0.450", "0.250", "0.000"]);
    }

    #[test]
    fn batches_are_cheaper_and_a_large_body_is_several_requests() {
        let items = million_events(&Counts::committed());
        assert!(items[0].usage.usd() > 5.0 * items[2].usage.usd());
        let count = Count { bytes_in: 600 * 1024, ..Count::default() };
        assert_eq!(Usage::ingest(&count).http_requests, 2.0);
    }
}
