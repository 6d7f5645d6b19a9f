//! Continuous runs of OmoiOS's worker.
//!
//! That worker sends `agent.completed` after every query of a continuous run, and `continuous.completed` once, at the end.
//! So within a run the former reports progress, and only the latter is the final report. The worker sends single events,
//! and announces a run with `continuous.started`, and each iteration with `iteration.started`.
//!
//! A worker that sends numbered batches, such as Sunaba's own, sends `continuous.completed` as well, and after it the
//! only `agent.completed` or `agent.failed` of the task. Its batches are read by [`attempt::reported_outcome`] alone.

use crate::attempt::{self, Outcome, RESULT_FIELDS, Summary, TRUNCATED, result_of, summary_of};
use crate::event::catalogue::{self, field_names};
use crate::event::payloads::{
    AgentCompleted, ContinuousCompleted, ContinuousStarted, IterationFailed, IterationStarted, RunReport,
};
use crate::ingest::NewEvent;
use crate::{JsonObject, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A continuous run that has not ended. Stored with the sandbox, which every ingest rewrites: it must stay small.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContinuousRun {
    /// Result of the latest query: `continuous.completed` has no output of the agent and no branch.
    #[serde(with = "crate::json::as_text", skip_serializing_if = "Option::is_none")]
    pub last_query: Option<JsonObject>,
    /// Error of the latest failed iteration: `continuous.completed` has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Maximum length of a text of [`ContinuousRun`].
const MAX_CHARS: usize = 1_000;
/// Maximum size of [`ContinuousRun::last_query`].
const MAX_BYTES: usize = 4 * 1024;

/// The outcome that a single event of a worker reports, if it is a final report. `run` follows the events.
///
/// The start of an iteration announces a run as well, because that worker does not send an event again that got lost.
pub fn reported_outcome(
    run: &mut Option<ContinuousRun>,
    event: &NewEvent,
    now: Timestamp,
) -> Option<Outcome> {
    let NewEvent { event_type, data, .. } = event;
    if event_type.has::<ContinuousStarted>() || event_type.has::<IterationStarted>() {
        run.get_or_insert_default();
        return None;
    }
    if event_type.has::<ContinuousCompleted>() {
        return Some(outcome_of(run.take().unwrap_or_default(), data, now));
    }
    match run {
        Some(run) if event_type.has::<IterationFailed>() => {
            let IterationFailed { error, .. } = catalogue::read(data).unwrap_or_default();
            run.last_error =
                Some(error.chars().take(MAX_CHARS).collect()).filter(|error: &String| !error.is_empty());
            None
        }
        Some(run) if event_type.has::<AgentCompleted>() => {
            let limits = Summary { max_chars: MAX_CHARS, max_bytes: MAX_BYTES };
            run.last_query = Some(summary_of(data, limits, Vec::new()));
            None
        }
        _ => attempt::reported_outcome(event_type, data, now),
    }
}

/// A run is a success if its result was validated, or if the worker took the agent's word for it. Every other end, such
/// as a limit, leaves the task undone. Sunaba's worker reports the same.
fn outcome_of(run: ContinuousRun, data: &JsonObject, now: Timestamp) -> Outcome {
    let ContinuousCompleted { stop_reason, state, .. } = catalogue::read(data).unwrap_or_default();
    if state.validation_passed || SUCCESSES.contains(&stop_reason.as_str()) {
        return Outcome::Completed { result: result_of_run(run.last_query, data), at: now };
    }
    let error = match (stop_reason.as_str(), run.last_error) {
        ("", _) => "the continuous run ended without a validated result".to_owned(),
        (CONSECUTIVE_ERRORS, last_error) => {
            let count = match state.error_count {
                0 => "all".to_owned(),
                count => count.to_string(),
            };
            let last_error = last_error.map(|error| format!("; the last error: {error}"));
            format!("{count} consecutive iterations failed{}", last_error.unwrap_or_default())
        }
        (reason, _) => format!("the continuous run ended before the task was done: {reason}"),
    };
    Outcome::failed(&error, now)
}

/// Values of `stop_reason` with which a run is a success.
const SUCCESSES: [&str; 3] = ["validation_passed", "completion_signal", "task_complete"];
const CONSECUTIVE_ERRORS: &str = "consecutive_errors";

/// The result of the latest query, with the totals of the run and the state of the repository at its end.
fn result_of_run(last_query: Option<JsonObject>, data: &JsonObject) -> JsonObject {
    let last_query = last_query.unwrap_or_else(JsonObject::empty);
    let mut changes: Vec<(&str, Option<Box<RawValue>>)> = Vec::new();
    for (name, total) in RESULT_FIELDS.map(|name| (name, name)).into_iter().chain(TOTALS) {
        if let Some(raw) = value(data, total) {
            changes.retain(|(changed, _)| *changed != name);
            changes.push((name, Some(raw.to_owned())));
        }
    }
    let truncated = value(&last_query, TRUNCATED).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut truncated: Vec<String> = truncated.unwrap_or_default();
    truncated.retain(|name| changes.iter().all(|(changed, _)| changed != name));
    result_of(&last_query.with_fields(&changes), truncated)
}

/// Fields of a result, and what `continuous.completed` calls them.
const TOTALS: [(&str, &str); 2] = {
    let [cost, session] = field_names!(RunReport: cost_usd, session_id;);
    let [total_cost, last_session] = field_names!(ContinuousCompleted: total_cost_usd, last_session_id;);
    [(cost, total_cost), (session, last_session)]
};

/// A top-level field that is not null.
fn value<'a>(data: &'a JsonObject, name: &str) -> Option<&'a RawValue> {
    let found = data.fields().into_iter().find(|(field, _)| field == name);
    found.map(|(_, raw)| raw).filter(|raw| raw.get() != "null")
}

#[cfg(test)]
mod tests;
