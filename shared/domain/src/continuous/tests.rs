//! Sequences of events as OmoiOS's worker sends them, one request for each.

use super::*;
use crate::attempt::{MAX_ERROR_CHARS, MAX_RESULT_BYTES};
use crate::retry::Class;
use crate::{EventId, EventType, Source};
use serde_json::{Value, json};

fn event(name: &str, data: &Value) -> NewEvent {
    NewEvent {
        id: EventId::parse("e").unwrap(),
        event_type: EventType::parse(name).unwrap(),
        source: Source::Agent,
        data: JsonObject::of(data),
        emitted_at: None,
    }
}

/// The position of the final report, and its outcome.
fn first_outcome(events: &[(&str, Value)]) -> Option<(usize, Outcome)> {
    let mut run = None;
    let mut outcomes = events.iter().map(|(name, data)| {
        // As it is stored between two requests.
        let stored = serde_json::to_string(&run).unwrap();
        run = serde_json::from_str(&stored).unwrap();
        reported_outcome(&mut run, &event(name, data), Timestamp::from_secs(1))
    });
    outcomes.by_ref().enumerate().find_map(|(index, outcome)| outcome.map(|outcome| (index, outcome)))
}

fn query(turns: u64, output: &str) -> (&'static str, Value) {
    let data = json!({
        "success": true, "turns": turns, "cost_usd": 0.5, "session_id": "s-a", "stop_reason": "end_turn",
        "final_output": output, "branch_name": "feature/x", "validation_passed": false, "pr_url": null,
    });
    ("agent.completed", data)
}

fn result_of_completed(outcome: Outcome) -> Value {
    let Outcome::Completed { result, .. } = outcome else { panic!("{outcome:?}") };
    serde_json::from_str(result.text()).unwrap()
}

#[test]
fn a_run_of_several_queries_ends_with_continuous_completed() {
    let end = json!({
        "stop_reason": "validation_passed", "iteration_num": 2, "successful_iterations": 1, "error_count": 0,
        "total_cost_usd": 1.25, "last_session_id": "s-b", "validation_passed": true, "tests_passed": true,
        "code_pushed": true, "pr_created": true, "pr_url": "https://example.org/pull/7", "pr_number": 7,
        "files_changed": 3, "ci_status": null,
    });
    let events = [
        ("agent.started", json!({"model": "m"})),
        ("continuous.started", json!({"goal": "g", "limits": {"max_iterations": 10}})),
        ("iteration.started", json!({"iteration_num": 1})),
        query(3, "half of it"),
        ("iteration.completed", json!({"iteration_num": 1})),
        ("iteration.started", json!({"iteration_num": 2})),
        query(5, "all of it"),
        ("iteration.completion_signal", json!({"iteration_num": 2})),
        ("iteration.validation", json!({"iteration_num": 2, "passed": true})),
        ("continuous.completed", end),
    ];
    let (position, outcome) = first_outcome(&events).unwrap();
    assert_eq!(position, events.len() - 1);
    let expected = json!({
        "success": true, "turns": 5, "final_output": "all of it", "branch_name": "feature/x",
        "cost_usd": 1.25, "session_id": "s-b", "stop_reason": "validation_passed", "validation_passed": true,
        "tests_passed": true, "code_pushed": true, "pr_created": true, "pr_number": 7, "files_changed": 3,
        "pr_url": "https://example.org/pull/7",
    });
    assert_eq!(result_of_completed(outcome), expected);
}

#[test]
fn outside_a_run_agent_completed_is_the_final_report() {
    let events = [("agent.started", json!({})), query(1, "done"), ("agent.waiting", json!({}))];
    assert_eq!(first_outcome(&events).map(|(position, _)| position), Some(1));
    let failed = [("agent.started", json!({})), ("agent.failed", json!({"error": "no"}))];
    assert!(matches!(first_outcome(&failed), Some((1, Outcome::Failed { .. }))));
}

/// That worker does not send an event again that got lost.
#[test]
fn an_iteration_announces_a_run_whose_start_was_lost() {
    let iteration = ("iteration.started", json!({"iteration_num": 1}));
    let end = ("continuous.completed", json!({"stop_reason": "completion_signal"}));
    let events = [iteration, query(1, "half of it"), end.clone()];
    assert_eq!(first_outcome(&events).map(|(position, _)| position), Some(2));
    // Without the reports of its queries, too.
    assert!(matches!(first_outcome(&[end]), Some((0, Outcome::Completed { .. }))));
}

#[test]
fn a_failure_within_a_run_is_final() {
    let events = [("continuous.started", json!({})), ("agent.failed", json!({"error": "no"}))];
    assert!(matches!(first_outcome(&events), Some((1, Outcome::Failed { .. }))));
}

#[test]
fn only_a_validated_or_signalled_run_is_a_success() {
    let error = |data: Value| match first_outcome(&[("continuous.completed", data)]) {
        Some((0, Outcome::Failed { error, .. })) => Some(error),
        Some((0, Outcome::Completed { .. })) => None,
        other => panic!("{other:?}"),
    };
    for stop_reason in SUCCESSES {
        assert_eq!(error(json!({"stop_reason": stop_reason})), None, "{stop_reason}");
    }
    assert_eq!(error(json!({"validation_passed": true})), None);
    for stop_reason in
        ["max_iterations_reached", "max_cost_reached", "max_duration_reached", "shutdown_signal", "unknown"]
    {
        let data = json!({"stop_reason": stop_reason, "validation_passed": false});
        assert!(error(data).is_some_and(|error| error.ends_with(stop_reason)), "{stop_reason}");
    }
    assert!(error(json!({})).is_some());
    assert!(error(json!({"stop_reason": 7, "validation_passed": "true"})).is_some());
}

#[test]
fn consecutive_errors_fail_the_task_with_the_last_error() {
    let failed = |error: &str| ("iteration.failed", json!({"iteration_num": 1, "error": error}));
    let end = ("continuous.completed", json!({"stop_reason": "consecutive_errors", "error_count": 3}));
    let events = [
        ("continuous.started", json!({})),
        failed("exit code 1"),
        failed("exit code 1"),
        failed("Invalid API key"),
        end.clone(),
    ];
    let Some((4, Outcome::Failed { error, class, .. })) = first_outcome(&events) else { panic!() };
    assert_eq!(error, "3 consecutive iterations failed; the last error: Invalid API key");
    assert_eq!(class, Class::Permanent, "a retry would fail in the same way");
    let Some((0, Outcome::Failed { error, class, .. })) = first_outcome(&[end]) else { panic!() };
    assert_eq!((error.as_str(), class), ("3 consecutive iterations failed", Class::Transient));
}

#[test]
fn a_stored_run_stays_small() {
    let mut run = None;
    let now = Timestamp::from_secs(1);
    let large = "🦀".repeat(100_000);
    let report = json!({
        "final_output": large, "output": large, "artifacts": vec!["x"; 5_000], "turns": 7, "transcript_b64": large,
    });
    for (name, data) in [
        ("continuous.started", json!({"goal": large})),
        ("iteration.failed", json!({"error": large})),
        ("agent.completed", report),
    ] {
        assert_eq!(reported_outcome(&mut run, &event(name, &data), now), None);
    }
    let stored = run.clone().unwrap();
    let query = stored.last_query.unwrap();
    assert!(query.text().len() <= MAX_BYTES && stored.last_error.unwrap().chars().count() == MAX_CHARS);
    let end = event("continuous.completed", &json!({"stop_reason": "task_complete", "output": large}));
    let result = result_of_completed(reported_outcome(&mut run, &end, now).unwrap());
    assert_eq!((&result["turns"], result["output"].as_str().unwrap().chars().count()), (&json!(7), 4_000));
    let truncated: Vec<String> = serde_json::from_value(result["truncated"].clone()).unwrap();
    assert!(["final_output", "output", "artifacts"].iter().all(|name| truncated.iter().any(|t| t == name)));
    assert!(result.to_string().len() <= MAX_RESULT_BYTES && MAX_CHARS < MAX_ERROR_CHARS);
}
