//! Classifies responses of the plane, as the table of problem codes in `docs/protocol.md` defines.

use client::{Attempt, Failed};
use contract::problem::Problem;
use serde_json::{Map, Value};
use std::time::Duration;

/// What a response means for the request.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    Stored(T),
    /// The result is unknown. Send the same request again: an error code, and the delay if the plane set one.
    Retry(&'static str, Option<Duration>),
    /// The request is valid, but the plane refuses it until an operator intervenes.
    Blocked(BlockReason),
    /// Part of the request is invalid. The rest may still be accepted.
    Rejected(Box<Problem>),
    /// The plane expects another batch number.
    Renumber,
    /// Another worker has taken over.
    Fenced {
        /// Epoch of the other worker.
        current: u64,
    },
}

/// Why the plane accepts nothing for now. All data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReason {
    /// The token is invalid, expired or replaced.
    Unauthorized,
    /// There is no such sandbox at this URL.
    NotFound,
    /// A problem code that this worker does not know.
    Refused,
}

pub(super) fn classify<T>(attempt: Attempt<T>) -> Outcome<T> {
    match attempt {
        Attempt::Answered(response) => Outcome::Stored(response),
        // A proxy rejected the size. A retry would fail again, and the plane has received nothing.
        Attempt::Failed(Failed { status: Some(413), .. }) => Outcome::Rejected(Box::new(too_large())),
        Attempt::Failed(failed) => Outcome::Retry(failed.kind, failed.retry_after),
        Attempt::Refused(problem) => match (problem.status, problem.code.as_str()) {
            (401 | 403, _) => Outcome::Blocked(BlockReason::Unauthorized),
            (404 | 405 | 421, _) => Outcome::Blocked(BlockReason::NotFound),
            (409, "stale_epoch") => {
                let current = problem.facts.get("current_epoch").and_then(Value::as_u64).unwrap_or(0);
                Outcome::Fenced { current }
            }
            // The directory is locked, so no other run shares this epoch. If a second worker runs with its own
            // directory, the one with the lower epoch is fenced.
            (409, "epoch_too_high" | "batch_gap" | "batch_changed" | "batch_expired") => Outcome::Renumber,
            (409, _) => Outcome::Blocked(BlockReason::Refused),
            _ => Outcome::Rejected(problem),
        },
    }
}

impl BlockReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
        }
    }
}

fn too_large() -> Problem {
    Problem {
        kind: "urn:sunaba:problem:too_large".to_owned(),
        title: "Payload Too Large".to_owned(),
        status: 413,
        code: "too_large".to_owned(),
        detail: "A proxy rejected a body of this size.".to_owned(),
        field: None,
        request_id: String::new(),
        facts: Map::new(),
    }
}
