//! OmoiOS's worker: one request for each event, in the order in which that worker sends them, and when its task ends.

use super::TaskApi;
use crate::large_events::noise;
use crate::support::OPERATOR;
use contract::limits::MAX_EVENT_BYTES;
use domain::SandboxId;
use domain::retry::Class;
use serde_json::{Value, json};

/// A task whose sandbox runs OmoiOS's worker.
struct OmoiosWorker {
    api: TaskApi,
    sandbox: SandboxId,
}

impl OmoiosWorker {
    /// The worker has started its agent.
    async fn start(task: Value) -> Self {
        let api = TaskApi::open().await;
        api.create("t", task).await;
        let sandbox = api.assign("t").await;
        let worker = Self { api, sandbox };
        let started =
            json!({"sdk": "claude_agent_sdk", "model": "m", "task": "fix it", "is_resuming": false});
        assert_eq!(worker.send("agent.started", started).await, "running");
        worker
    }

    /// Announces a continuous run.
    async fn start_run(&self) {
        let limits = json!({"max_iterations": 10, "max_cost_usd": 20.0, "max_duration_seconds": 3600});
        let requirements = json!({"clean_git": true, "code_pushed": true, "pr_created": true});
        let started = json!({
            "goal": "fix it", "limits": limits, "completion_signal": "TASK_COMPLETE", "completion_threshold": 1,
            "validation_requirements": requirements,
        });
        assert_eq!(self.send("continuous.started", started).await, "running");
    }

    /// Sends an event, lets the plane act on it, and returns the status of the task.
    async fn send(&self, event_type: &str, mut data: Value) -> &'static str {
        for (field, value) in [("task_id", "t"), ("agent_id", "a-1"), ("sandbox_id", self.sandbox.as_str())] {
            data[field] = json!(value);
        }
        let (status, answer) = self.api.emit(&self.sandbox, event_type, data).await;
        assert_eq!((status, &answer["status"]), (200, &json!("received")), "{event_type}: {answer}");
        self.api.reconcile(&self.sandbox).await;
        self.api.stored("t").await.status.as_str()
    }

    async fn sandbox_status(&self) -> Value {
        self.api.get(&format!("/sandboxes/{}", self.sandbox)).await["status"].clone()
    }

    async fn log(&self) -> Vec<Value> {
        let page = self.api.get(&format!("/sandboxes/{}/events?order=oldest&limit=500", self.sandbox)).await;
        page["events"].as_array().unwrap().clone()
    }
}

/// What `iteration.…` and `continuous.completed` say about a run.
fn state(iteration: u64, validated: bool) -> Value {
    json!({
        "iteration_num": iteration, "successful_iterations": iteration, "error_count": 0, "total_cost_usd": 1.5,
        "completion_signal_count": u64::from(validated), "elapsed_seconds": 60.5, "last_session_id": "c-2",
        "validation_passed": validated, "tests_passed": validated, "code_committed": validated,
        "code_pushed": validated, "pr_created": validated, "pr_url": validated.then_some("https://example.org/pull/7"),
        "pr_number": validated.then_some(7), "files_changed": 2, "ci_status": null,
    })
}

fn with(mut state: Value, field: &str, value: Value) -> Value {
    state[field] = value;
    state
}

/// The report of one query: all of it is sent before the repository is validated.
fn query_completed(turns: u64, output: &str) -> Value {
    json!({
        "success": true, "turns": turns, "cost_usd": 0.75, "session_id": "c-1", "transcript_b64": "e30K",
        "stop_reason": "end_turn", "input_tokens": 10, "output_tokens": 20, "cache_read_tokens": 0,
        "cache_write_tokens": 0, "final_output": output, "branch_name": "feature/t-fix", "agent_type": "implementer",
        "validation_passed": false, "tests_passed": false, "code_committed": false, "code_pushed": false,
        "pr_created": false, "pr_url": null, "pr_number": null, "files_changed": 0, "ci_status": null,
    })
}

#[tokio::test]
async fn continuous_run_of_omoios_worker_ends_with_its_last_query() {
    let worker = OmoiosWorker::start(json!({})).await;
    worker.start_run().await;
    for iteration in 1..=2 {
        let is_last = iteration == 2;
        worker
            .send("iteration.started", with(state(iteration, false), "prompt_preview", json!("Go on")))
            .await;
        worker.send("agent.message", json!({"turn": 1, "content": "…"})).await;
        let output = if is_last { "Done. TASK_COMPLETE" } else { "Half of it" };
        assert_eq!(worker.send("agent.completed", query_completed(iteration * 4, output)).await, "running");
        assert_eq!(worker.sandbox_status().await, "running", "iteration {iteration}");
        if !is_last {
            let done = with(state(iteration, false), "output_preview", json!(output));
            assert_eq!(worker.send("iteration.completed", done).await, "running");
        }
    }
    worker
        .send("iteration.completion_signal", json!({"iteration_num": 2, "signal_count": 1, "threshold": 1}))
        .await;
    let validation = json!({"iteration_num": 2, "passed": true, "feedback": "", "errors": []});
    assert_eq!(worker.send("iteration.validation", validation).await, "running");
    let end = with(state(2, true), "stop_reason", json!("validation_passed"));
    assert_eq!(worker.send("continuous.completed", end).await, "completed");
    let expected = json!({
        "success": true, "turns": 8, "cost_usd": 1.5, "input_tokens": 10, "output_tokens": 20, "session_id": "c-2",
        "stop_reason": "validation_passed", "branch_name": "feature/t-fix", "final_output": "Done. TASK_COMPLETE",
        "code_pushed": true, "pr_created": true, "pr_url": "https://example.org/pull/7", "pr_number": 7,
        "tests_passed": true, "files_changed": 2, "validation_passed": true,
    });
    assert_eq!(worker.api.get("/tasks/t").await["result"], expected);
    // It waits for messages afterwards.
    assert_eq!(worker.send("agent.waiting", json!({"message": "waiting"})).await, "completed");
    let types: Vec<Value> = worker.log().await.iter().map(|event| event["event_type"].clone()).collect();
    let end = types.iter().position(|name| name == "sandbox.completing").unwrap();
    assert_eq!(types[end - 1], "continuous.completed");
}

/// The clock stands still: no sandbox is idle or stuck.
#[tokio::test]
async fn consecutive_errors_of_a_continuous_run_fail_the_task_at_once() {
    let worker = OmoiosWorker::start(json!({"max_retries": 0})).await;
    worker.start_run().await;
    for count in 1..=3 {
        worker.send("iteration.started", state(count, false)).await;
        worker
            .send("agent.stream_error", json!({"error": "exit code 1", "error_type": "command_failed"}))
            .await;
        let failed = json!({"iteration_num": count, "error": "No result received", "error_count": count});
        assert_eq!(worker.send("iteration.failed", failed).await, "running");
    }
    let end = with(state(3, false), "stop_reason", json!("consecutive_errors"));
    assert_eq!(worker.send("continuous.completed", with(end, "error_count", json!(3))).await, "failed");
    let error = worker.api.stored("t").await.error.unwrap();
    assert_eq!(error, "3 consecutive iterations failed; the last error: No result received");
    assert_eq!(worker.sandbox_status().await, "failed");
}

#[tokio::test]
async fn continuous_run_that_reaches_a_limit_fails_the_task() {
    let worker = OmoiosWorker::start(json!({"max_retries": 0})).await;
    worker.start_run().await;
    worker.send("iteration.started", state(1, false)).await;
    assert_eq!(worker.send("agent.completed", query_completed(50, "Half of it")).await, "running");
    let end = with(state(1, false), "stop_reason", json!("max_cost_reached"));
    assert_eq!(worker.send("continuous.completed", end).await, "failed");
    let error = worker.api.stored("t").await.error.unwrap();
    assert!(error.ends_with("max_cost_reached"), "{error}");
    assert_eq!(domain::retry::classify(&error), Class::Transient);
}

#[tokio::test]
async fn single_run_of_omoios_worker_ends_with_its_query() {
    let worker = OmoiosWorker::start(json!({})).await;
    assert_eq!(worker.send("agent.completed", query_completed(4, "Done")).await, "completed");
    assert_eq!(worker.api.get("/tasks/t").await["result"]["final_output"], "Done");
    assert_eq!(worker.send("agent.waiting", json!({"message": "waiting"})).await, "completed");
}

/// OmoiOS's simple worker calls the error `error_message`. Of both names, `error` counts, as in the console.
#[tokio::test]
async fn error_of_a_failure_is_read_under_the_name_of_the_simple_worker() {
    for (data, expected) in [
        (json!({"error_message": "the first"}), "the first"),
        (json!({"error_message": "the first", "error": "the second"}), "the second"),
        (json!({"error": "the second", "error_message": "the first"}), "the second"),
        // A field that cannot be read does not hide the error.
        (json!({"turns": "3", "cost_usd": null, "error_message": "the first"}), "the first"),
    ] {
        let worker = OmoiosWorker::start(json!({"max_retries": 0})).await;
        assert_eq!(worker.send("agent.failed", data.clone()).await, "failed");
        assert_eq!(worker.api.stored("t").await.error.as_deref(), Some(expected), "{data}");
        assert_eq!(worker.sandbox_status().await, "failed");
    }
}

/// Sunaba's worker sends batches, and its final report after the end of the run, maybe in the next batch.
#[tokio::test]
async fn numbered_batches_end_a_continuous_run_with_the_report_of_the_agent() {
    let worker = OmoiosWorker::start(json!({})).await;
    let path = format!("/sandboxes/{}/events", worker.sandbox);
    let batches = [
        json!([{"event_id": "1", "event_type": "continuous.started"}, {"event_id": "2", "event_type": "iteration.started"}]),
        json!([{"event_id": "3", "event_type": "continuous.completed", "event_data": {"stop_reason": "completion_signal"}}]),
        json!([{"event_id": "4", "event_type": "agent.completed", "event_data": {"turns": 9, "final_output": "Done"}}]),
    ];
    for (number, (events, expected)) in
        (1..).zip(batches.into_iter().zip(["running", "running", "completed"]))
    {
        let body = json!({"epoch": 1, "batch": number, "events": events});
        assert_eq!(worker.api.call(OPERATOR, "POST", &path, Some(body)).await.0, 200);
        worker.api.reconcile(&worker.sandbox).await;
        assert_eq!(worker.api.stored("t").await.status.as_str(), expected, "batch {number}");
    }
    assert_eq!(worker.api.get("/tasks/t").await["result"], json!({"turns": 9, "final_output": "Done"}));
}

/// Nearly as much as Lambda accepts, and more than a transaction holds.
#[tokio::test]
async fn final_report_with_a_large_transcript_ends_the_task() {
    let worker = OmoiosWorker::start(json!({})).await;
    let report =
        with(query_completed(4, "Done"), "transcript_b64", json!(noise(7, MAX_EVENT_BYTES - 16 * 1024)));
    assert_eq!(worker.send("agent.completed", report.clone()).await, "completed");
    assert_eq!(worker.api.get("/tasks/t").await["result"]["final_output"], "Done");
    let log = worker.log().await;
    let event = log.iter().find(|event| event["event_type"] == "agent.completed").unwrap();
    assert_eq!(event["body"]["omitted"], json!(["transcript_b64"]));
    assert_eq!(event["event_data"]["turns"], 4);
    let href = event["body"]["href"].as_str().unwrap().trim_start_matches("/api/v1");
    assert_eq!(worker.api.get(href).await["transcript_b64"], report["transcript_b64"]);
}

/// Only the local plane receives such a request: it is larger than what Lambda accepts.
#[tokio::test]
async fn final_report_beyond_the_limit_ends_the_task_without_its_transcript() {
    let worker = OmoiosWorker::start(json!({})).await;
    let report = with(query_completed(4, "Done"), "transcript_b64", json!("x".repeat(2 * MAX_EVENT_BYTES)));
    assert_eq!(worker.send("agent.completed", report).await, "completed");
    assert_eq!(worker.api.get("/tasks/t").await["result"]["final_output"], "Done");
    let log = worker.log().await;
    let event = log.iter().find(|event| event["event_type"] == "agent.completed").unwrap();
    let data = &event["event_data"];
    assert_eq!((&data["truncated"], &data["turns"]), (&json!(["transcript_b64"]), &json!(4)));
    assert!(data["transcript_b64"].is_null() && event["body"].is_null(), "{event}");
}

/// On AWS the reports of queries may be too large to arrive. The end of the run is small.
#[tokio::test]
async fn continuous_run_ends_without_any_report_of_a_query() {
    let worker = OmoiosWorker::start(json!({})).await;
    worker.start_run().await;
    worker.send("iteration.started", state(1, false)).await;
    let end = with(state(1, true), "stop_reason", json!("validation_passed"));
    assert_eq!(worker.send("continuous.completed", end).await, "completed");
    assert_eq!(worker.api.get("/tasks/t").await["result"]["pr_number"], 7);
}
