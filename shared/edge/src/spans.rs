//! Spans that put the id of a trigger on every log line below the edge. `docs/logging.md` lists their fields.
//!
//! They have the level `error` and a target of their own, so that a log filter removes lines but never the ids of the
//! lines that remain.

use domain::ConnectionId;
use tracing::{Span, error_span};

/// Target of all spans. [`crate::logging`] always enables it; no event uses it.
pub(crate) const TARGET: &str = "sunaba::span";

pub(crate) fn request(request_id: &str) -> Span {
    error_span!(target: TARGET, "request", request.id = request_id)
}

/// `$connect`, a frame, or `$disconnect`. Each has a request id of its own.
pub(crate) fn socket(connection: &ConnectionId, request_id: &str) -> Span {
    error_span!(target: TARGET, "socket", request.id = request_id, connection.id = %connection)
}

/// A batch of stream records, by the sequence number of its first.
pub(crate) fn records(function: &str, sequence_number: &str) -> Span {
    error_span!(target: TARGET, "records", function, record.sequence = sequence_number)
}

/// A job, by the id of its SQS message.
pub(crate) fn job(message_id: &str) -> Span {
    error_span!(target: TARGET, "job", job.id = message_id)
}

/// A tick of a schedule, by the id of its event.
pub(crate) fn tick(function: &str, event_id: &str) -> Span {
    error_span!(target: TARGET, "tick", function, tick.id = event_id)
}
