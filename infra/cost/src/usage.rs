//! Billed units, and the bill.

use crate::counts::Count;
use crate::model::assumed;
use crate::prices::{self, Price};
use std::ops::{Add, Mul};

/// Calls to SQS.
const QUEUE_CALLS: [&str; 4] = ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"];

/// Billed units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub http_requests: f64,
    pub socket_messages: f64,
    pub socket_minutes: f64,
    pub invocations: f64,
    /// Duration of all invocations except `messages-pull`.
    pub milliseconds: f64,
    /// Duration of `messages-pull`, which has less memory.
    pub pull_milliseconds: f64,
    pub queue_requests: f64,
    pub write_units: f64,
    pub read_units: f64,
    /// Data transfer from AWS to the internet.
    pub bytes_out: f64,
}

/// The price of one service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    pub service: &'static str,
    pub usd: f64,
}

impl Usage {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn request(count: &Count) -> Self {
        let further_calls = (count.all_calls() - 1.0).max(0.0);
        Self {
            http_requests: (count.bytes_in as f64 / HTTP_UNIT_BYTES).ceil().max(1.0),
            invocations: 1.0,
            milliseconds: assumed::INGEST_MS + further_calls * assumed::SECOND_CALL_MS,
            bytes_out: count.bytes_out as f64,
            ..Self::storage(count)
        }
    }

    /// A pull that waited for `waited_secs`.
    pub fn pull(count: &Count, waited_secs: f64) -> Self {
        // The duration of `ReceiveMessage` is the wait itself.
        let further_calls = count.all_calls() - count.calls_to(&["ReceiveMessage"]) - 1.0;
        let pull_milliseconds =
            assumed::PULL_MS + further_calls * assumed::SECOND_CALL_MS + waited_secs * 1e3;
        Self { milliseconds: 0.0, pull_milliseconds, ..Self::request(count) }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn broadcast(count: &Count) -> Self {
        // A frame has at most 32 KB, which is the billed unit.
        let pushes = count.calls_to(&["PostToConnection"]);
        Self {
            socket_messages: pushes,
            invocations: 1.0,
            milliseconds: assumed::BROADCAST_MS + pushes * assumed::PUSH_MS,
            bytes_out: count.bytes_out as f64,
            ..Self::storage(count)
        }
    }

    /// A socket that opens or closes.
    pub fn socket(count: &Count) -> Self {
        Self { invocations: 1.0, milliseconds: assumed::SOCKET_MS, ..Self::storage(count) }
    }

    /// A frame from a client, and the answer to it.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn frame(count: &Count) -> Self {
        Self {
            socket_messages: 1.0 + count.calls_to(&["PostToConnection"]),
            invocations: 1.0,
            milliseconds: assumed::FRAME_MS,
            bytes_out: count.bytes_out as f64,
            ..Self::storage(count)
        }
    }

    /// Only the table and the queues.
    pub(crate) fn storage(count: &Count) -> Self {
        Self {
            write_units: count.write_units,
            read_units: count.read_units,
            queue_requests: count.calls_to(&QUEUE_CALLS),
            ..Self::default()
        }
    }

    /// Concurrent functions, if this is the usage of one second.
    pub fn functions(&self) -> f64 {
        (self.milliseconds + self.pull_milliseconds) / 1e3
    }

    /// US dollars by service.
    pub fn bill(&self) -> [Line; 7] {
        let usd = |units: f64, price: Price| units * price.usd_each();
        let gateway = usd(self.http_requests, prices::HTTP_REQUESTS)
            + usd(self.socket_messages, prices::SOCKET_MESSAGES)
            + usd(self.socket_minutes, prices::SOCKET_MINUTES);
        let gb_seconds = self.milliseconds / 1e3 * assumed::MEMORY_GB
            + self.pull_milliseconds / 1e3 * assumed::PULL_MEMORY_GB;
        let lambda = usd(self.invocations, prices::INVOCATIONS) + usd(gb_seconds, prices::GB_SECONDS);
        let table = usd(self.write_units, prices::WRITE_UNITS) + usd(self.read_units, prices::READ_UNITS);
        [
            Line { service: "API Gateway", usd: gateway },
            Line { service: "Lambda", usd: lambda },
            Line { service: "DynamoDB", usd: table },
            Line { service: "SQS", usd: usd(self.queue_requests, prices::QUEUE_REQUESTS) },
            Line { service: "Logs", usd: usd(self.invocations * assumed::LOG_BYTES, prices::LOGS) },
            Line { service: "X-Ray", usd: usd(self.invocations * assumed::TRACED, prices::TRACES) },
            Line { service: "Transfer", usd: usd(self.bytes_out, prices::TRANSFER_OUT) },
        ]
    }

    pub fn usd(&self) -> f64 {
        self.bill().iter().map(|line| line.usd).sum()
    }
}

/// HTTP API requests are billed in units of this size.
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
            pull_milliseconds: self.pull_milliseconds + other.pull_milliseconds,
            queue_requests: self.queue_requests + other.queue_requests,
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
            pull_milliseconds: self.pull_milliseconds * times,
            queue_requests: self.queue_requests * times,
            write_units: self.write_units * times,
            read_units: self.read_units * times,
            bytes_out: self.bytes_out * times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bill_matches_manual_calculation() {
        let count =
            Count { write_units: 4.0, read_units: 2.0, bytes_in: 600, bytes_out: 0, ..Count::default() };
        let million = Usage::request(&count) * 1e6;
        let usd: Vec<String> = million.bill().iter().map(|line| format!("{:.3}", line.usd)).collect();
        // API Gateway: 1 per request. Lambda: 0.20 for invocations, and 20 ms with 0.25 GB, 5,000 GB-seconds. DynamoDB:
        // 4 units at 0.625 and 2 at 0.125. Logs: 0.9 GB. X-Ray: 50,000 traces.
        assert_eq!(usd, ["1.000", "0.267", "2.750", "0.000", "0.450", "0.250", "0.000"]);
    }

    #[test]
    fn waiting_time_of_a_pull_is_billed() {
        let calls = [("GetItem".to_owned(), 2), ("ReceiveMessage".to_owned(), 1)].into();
        let pull = Usage::pull(&Count { calls, read_units: 2.0, ..Count::default() }, 2.0);
        // 25 ms, one further call, and the wait.
        assert_eq!((pull.pull_milliseconds, pull.milliseconds), (2_033.0, 0.0));
        let usd: Vec<String> = (pull * 1e6).bill().iter().map(|line| format!("{:.3}", line.usd)).collect();
        // Lambda: 0.20 for invocations, and 2.033 s with 0.125 GB, 254,125 GB-seconds. SQS: one call.
        assert_eq!(usd, ["1.000", "3.588", "0.250", "0.500", "0.450", "0.250", "0.000"]);
    }

    #[test]
    fn large_body_is_billed_as_several_requests() {
        let count = Count { bytes_in: 600 * 1024, ..Count::default() };
        assert_eq!(Usage::request(&count).http_requests, 2.0);
    }
}
