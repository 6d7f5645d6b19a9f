//! What to do about an answer: the table of refusals in `docs/protocol.md`, as a function.

use client::{Attempt, Failed};
use contract::problem::Problem;
use serde_json::{Map, Value};
use std::time::Duration;

/// What an answer means for what was sent.
#[derive(Debug)]
pub(super) enum Verdict<T> {
    /// The plane has it.
    Stored(T),
    /// Nothing may be concluded: the same again, after so long if the plane said how long.
    Again(&'static str, Option<Duration>),
    /// It is right as it is, but the plane will not have it now, and waiting a little will not help.
    Later(Trouble),
    /// Something in it is wrong: the rest may still be taken.
    Wrong(Box<Problem>),
    /// The number is not what the plane expects.
    Renumber,
    /// Somebody else is the worker now.
    Fenced {
        /// Whose epoch.
        current: u64,
    },
}

/// Why the plane takes nothing for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The token is wrong, has ended, or was replaced. Everything is kept.
    Unauthorized,
    /// There is no such sandbox at this address. Everything is kept.
    NotFound,
    /// It refuses for a reason that this worker does not know. Everything is kept.
    Refused,
}

/// Judges an answer.
pub(super) fn judge<T>(attempt: Attempt<T>) -> Verdict<T> {
    match attempt {
        Attempt::Answered(answer) => Verdict::Stored(answer),
        // Whatever stands in between will say the same again, and has passed nothing on.
        Attempt::Failed(Failed { status: Some(413), .. }) => Verdict::Wrong(Box::new(too_large())),
        Attempt::Failed(failed) => Verdict::Again(failed.kind, failed.retry_after),
        Attempt::Refused(problem) => match (problem.status, problem.code.as_str()) {
            (401 | 403, _) => Verdict::Later(Trouble::Unauthorized),
            (404 | 405 | 421, _) => Verdict::Later(Trouble::NotFound),
            (409, "stale_epoch") => {
                let current = problem.facts.get("current_epoch").and_then(Value::as_u64).unwrap_or(0);
                Verdict::Fenced { current }
            }
            // The folder is locked, so no other run shares the epoch on purpose. If there are two all the same, each
            // with its own folder, the one that takes the lower epoch is fenced, and that ends it.
            (409, "batch_gap" | "batch_changed" | "batch_forgotten") => Verdict::Renumber,
            (409, _) => Verdict::Later(Trouble::Refused),
            _ => Verdict::Wrong(problem),
        },
    }
}

impl Trouble {
    /// In a word.
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
        detail: "Something on the way takes no body of this size.".to_owned(),
        field: None,
        request_id: String::new(),
        facts: Map::new(),
    }
}
