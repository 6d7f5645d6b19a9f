//! Reports of workers. Late, repeated and foreign reports change nothing and get a clear response.

use super::{TaskApi, task_id};
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::quota::Amount;
use domain::{SandboxId, Task};
use serde_json::{Value, json};
use std::sync::Arc;

/// Every status that a task can have when a report arrives.
const STATUSES: [&str; 8] =
    ["pending", "claiming", "assigned", "running", "validating", "completed", "failed", "cancelled"];

impl TaskApi {
    /// Brings a task into this status after a failed first attempt. Returns the sandbox of the first attempt.
    async fn second_attempt(&self, id: &str, state: &str) -> SandboxId {
        self.create(id, json!({"validation": state == "validating"})).await;
        let older = self.start(id).await;
        self.emit(&older, "agent.failed", json!({"error": "the model is away (503)"})).await;
        self.reconcile(&older).await;
        self.harness.clock.advance_secs(120);
        if state != "pending" {
            self.run_job(&Job::ReconcileTask { task_id: task_id(id) }).await;
            match state {
                "claiming" => self.claim(id).await,
                "assigned" => self.assign(id).await,
                _ => self.start(id).await,
            };
        }
        match state {
            "validating" | "completed" => drop(self.complete(id).await),
            "failed" => assert_eq!(self.post(&format!("/tasks/{id}/fail"), json!({})).await.0, 200),
            "cancelled" => assert_eq!(self.post(&format!("/tasks/{id}/cancel"), json!({})).await.0, 200),
            _ => {}
        }
        assert_eq!(self.stored(id).await.status.as_str(), state);
        older
    }

    async fn task_and_events(&self, id: &str) -> (Task, Vec<String>) {
        (self.stored(id).await, self.event_types(id).await)
    }

    /// Reports the outcome of a task through the worker route.
    async fn report(&self, sandbox: &SandboxId, id: &str, success: bool) -> (u64, Value) {
        let body =
            json!({"task_id": id, "success": success, "result": {"output": "late"}, "error_message": "late"});
        self.call(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/task-complete"), Some(body)).await
    }

    /// Emits every event that ends a task, and reconciles the sandbox after each.
    async fn emit_final_events(&self, sandbox: &SandboxId, id: &str) {
        for (event, data) in [
            ("agent.completed", json!({"success": true, "task_id": id})),
            ("agent.failed", json!({"error": "late", "task_id": id})),
            ("agent.completed", json!({"success": true, "task_id": id})),
        ] {
            let (status, answer) = self.emit(sandbox, event, data).await;
            assert_eq!((status, &answer["status"]), (200, &json!("received")), "{answer}");
            self.reconcile(sandbox).await;
        }
    }
}

#[tokio::test]
async fn reports_of_an_older_attempt_change_nothing() {
    let api = TaskApi::open().await;
    for state in STATUSES {
        let id = format!("t-{state}");
        let older = api.second_attempt(&id, state).await;
        let before = api.task_and_events(&id).await;
        api.emit_final_events(&older, &id).await;
        for success in [true, false] {
            let (status, answer) = api.report(&older, &id, success).await;
            let expected = match (state, success) {
                // The next attempt has not started, so the first one may repeat its own outcome.
                ("pending", false) => (200, "pending"),
                ("pending", true) => (409, "outcome_already_recorded"),
                _ => (409, "task_mismatch"),
            };
            let result = if status == 200 { &answer["new_status"] } else { &answer["code"] };
            assert_eq!((status, result), (expected.0, &json!(expected.1)), "{state}: {answer}");
        }
        let review = json!({"task_id": id, "passed": true, "feedback": "late"});
        let (status, problem) = api.post(&format!("/sandboxes/{older}/validation-result"), review).await;
        assert_eq!((status, &problem["code"]), (409, &json!("task_not_validating")), "{state}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("nothing was changed"), "{problem}");
        assert_eq!(api.task_and_events(&id).await, before, "{state}");
    }
}

#[tokio::test]
async fn reports_of_other_sandboxes_change_nothing() {
    let api = TaskApi::open().await;
    let registered = async |id: &str, org: &str| {
        let body = json!({"sandbox_id": id, "org": org});
        let (status, answer) = api.call(OPERATOR, "POST", "/sandboxes", Some(body)).await;
        assert_eq!(status, 201, "{answer}");
        answer["worker_token"].as_str().unwrap().to_owned()
    };
    registered("s-free", "acme").await;
    let theirs = registered("s-theirs", "rival").await;
    let free = SandboxId::parse("s-free").unwrap();
    for state in STATUSES {
        let (id, other) = (format!("t-{state}"), format!("other-{state}"));
        api.second_attempt(&id, state).await;
        api.create(&other, json!({})).await;
        // This claims all queued tasks; the task under test is not among them.
        let busy = api.start(&other).await;
        let (before, other_before) = (api.task_and_events(&id).await, api.task_and_events(&other).await);
        for sandbox in [&busy, &free] {
            for success in [true, false] {
                let (status, problem) = api.report(sandbox, &id, success).await;
                assert_eq!((status, &problem["code"]), (409, &json!("task_mismatch")), "{state}: {problem}");
                assert!(problem["detail"].as_str().unwrap().contains(id.as_str()), "{problem}");
            }
            let review = json!({"task_id": id, "passed": false, "feedback": "no"});
            let (status, problem) =
                api.post(&format!("/sandboxes/{sandbox}/validation-result"), review).await;
            assert_eq!(
                (status, &problem["code"]),
                (409, &json!("task_not_validating")),
                "{state}: {problem}"
            );
        }
        assert_eq!(api.task_and_events(&other).await, other_before, "{state}");
        // A worker of another org, for its own sandbox and for one of acme.
        let body = json!({"task_id": id});
        for (sandbox, expected) in [("s-theirs", 409), (busy.as_str(), 403)] {
            let path = format!("/sandboxes/{sandbox}/task-complete");
            let (status, problem) = api.call(&theirs, "POST", &path, Some(body.clone())).await;
            assert_eq!(status, expected, "{state}: {problem}");
        }
        // Events in a sandbox's own log concern only its own task, whatever task id they carry.
        api.emit_final_events(&busy, &id).await;
        for event in ["agent.completed", "agent.failed"] {
            api.emit(&free, event, json!({"task_id": id})).await;
        }
        assert_eq!(api.stored(&other).await.status.as_str(), "completed");
        assert_eq!(api.task_and_events(&id).await, before, "{state}");
    }
}

#[tokio::test]
async fn repeated_report_is_idempotent_and_a_different_one_is_rejected() {
    let api = TaskApi::open().await;
    for (state, validation) in [("completed", false), ("validating", true)] {
        api.create(state, json!({"validation": validation})).await;
        let sandbox = api.start(state).await;
        let (status, first) = api.report(&sandbox, state, true).await;
        assert_eq!((status, &first["new_status"]), (200, &json!(state)), "{first}");
        assert_eq!(api.stored(state).await.result.unwrap().text(), r#"{"output":"late"}"#);
        let before = api.task_and_events(state).await;
        let log = api.get(&format!("/sandboxes/{sandbox}")).await["seq"].clone();
        assert_eq!(api.report(&sandbox, state, true).await, (200, first));
        let (status, problem) = api.report(&sandbox, state, false).await;
        assert_eq!((status, &problem["code"]), (409, &json!("outcome_already_recorded")), "{problem}");
        assert_eq!(
            api.get(&format!("/sandboxes/{sandbox}")).await["seq"],
            log,
            "the sandbox log has the outcome once"
        );
        api.emit_final_events(&sandbox, state).await;
        assert_eq!(api.task_and_events(state).await, before, "{state}");
    }
    // A failure without retries left.
    api.create("failed", json!({"max_retries": 0})).await;
    let sandbox = api.start("failed").await;
    let (status, first) = api.report(&sandbox, "failed", false).await;
    assert_eq!((status, &first["new_status"]), (200, &json!("failed")));
    let before = api.task_and_events("failed").await;
    assert_eq!(api.report(&sandbox, "failed", false).await, (200, first));
    assert_eq!(api.report(&sandbox, "failed", true).await.1["code"], "outcome_already_recorded");
    api.emit_final_events(&sandbox, "failed").await;
    assert_eq!(api.task_and_events("failed").await, before);
}

/// From the sandbox of the current attempt, which does not know of the cancellation yet.
#[tokio::test]
async fn reports_after_cancellation_change_nothing() {
    let api = TaskApi::open().await;
    for verb in ["cancel", "fail"] {
        for begun in ["claiming", "assigned", "running"] {
            let id = format!("{verb}-{begun}");
            api.create(&id, json!({})).await;
            let sandbox = match begun {
                "claiming" => api.claim(&id).await,
                "assigned" => api.assign(&id).await,
                _ => api.start(&id).await,
            };
            assert_eq!(api.post(&format!("/tasks/{id}/{verb}"), json!({})).await.0, 200);
            let before = api.task_and_events(&id).await;
            for success in [true, false] {
                let (status, problem) = api.report(&sandbox, &id, success).await;
                assert_eq!((status, &problem["code"]), (409, &json!("task_mismatch")), "{id}: {problem}");
            }
            api.emit_final_events(&sandbox, &id).await;
            assert_eq!(api.task_and_events(&id).await, before, "{id}");
        }
    }
}

#[tokio::test]
async fn invalid_report_names_the_field() {
    let api = TaskApi::open().await;
    api.create("t", json!({})).await;
    let sandbox = api.start("t").await;
    let before = api.task_and_events("t").await;
    for (path, body, field) in [
        ("task-complete", json!({}), "task_id"),
        ("task-complete", json!({"task_id": "t", "success": "yes"}), "success"),
        ("task-complete", json!({"task_id": "t", "result": "done"}), "result"),
        ("validation-result", json!({"task_id": "t", "feedback": ""}), "passed"),
        ("validation-result", json!({"task_id": "t", "passed": true}), "feedback"),
    ] {
        let (status, problem) =
            api.call(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/{path}"), Some(body.clone())).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{body}: {problem}");
    }
    assert_eq!(api.task_and_events("t").await, before);
}

#[tokio::test]
async fn reports_count_for_the_org_of_their_sandbox() {
    let mut api = TaskApi::open().await;
    let mut started = Vec::new();
    for id in ["t-1", "t-2"] {
        api.create(id, json!({})).await;
        let sandbox = api.start(id).await;
        started.push((id, api.worker_token(&sandbox).await, format!("/sandboxes/{sandbox}/task-complete")));
    }
    api.harness.clock.advance_secs(60);
    let plane = Arc::get_mut(&mut api.plane).expect("no request is running");
    plane.settings.quotas.org = Amount::new(1, 1 << 20);
    for ((id, worker, path), (expected, status)) in started.iter().zip([(200, "completed"), (429, "running")])
    {
        let (seen, answer) = api.call(worker, "POST", path, Some(json!({"task_id": id}))).await;
        assert_eq!((seen, api.stored(id).await.status.as_str()), (expected, status), "{answer}");
    }
}

/// The OmoiOS spellings: `/sandbox` in the singular, and task routes below their sandbox.
#[tokio::test]
async fn route_aliases_work_for_the_whole_task_lifecycle() {
    let api = TaskApi::open().await;
    api.create("t", json!({"validation": true})).await;
    let mut sandboxes = Vec::new();
    for (route, passed, status) in [("sandbox", false, "needs_revision"), ("sandboxes", true, "completed")] {
        let sandbox = api.start("t").await;
        let worker = api.worker_token(&sandbox).await;
        let (seen, task) = api.call(&worker, "GET", &format!("/{route}/{sandbox}/task"), None).await;
        assert_eq!((seen, &task["id"], &task["status"]), (200, &json!("t"), &json!("running")), "{task}");
        for query in
            ["task_type=sandbox".to_owned(), format!("sandbox_id={sandbox}"), "has_sandbox=true".to_owned()]
        {
            assert_eq!(super::ids(&api.get(&format!("/tasks?{query}")).await), ["t"], "{query}");
        }
        let done = json!({"task_id": "t", "success": true, "result": {"pr_url": "https://example.com/1"}});
        let path = format!("/{route}/{sandbox}/task-complete");
        let (seen, answer) = api.call(&worker, "POST", &path, Some(done)).await;
        let expected =
            json!({"status": "accepted", "task_id": "t", "new_status": "validating", "unblocked_tasks": []});
        assert_eq!((seen, answer), (200, expected));
        let evidence = json!({"tests": {"failed": 2}});
        let review = json!({
            "task_id": "t", "passed": passed, "feedback": "Look again.", "recommendations": ["Test it."],
            "evidence": evidence,
        });
        let (seen, answer) = api.post(&format!("/{route}/{sandbox}/validation-result"), review).await;
        let expected = json!({"status": "accepted", "task_id": "t", "validation_passed": passed, "new_task_status": status});
        assert_eq!((seen, answer), (200, expected));
        let page = api.get("/tasks/t/events").await;
        let is_verdict = |event: &&Value| event["event_type"] == format!("task.{status}");
        let verdict = page["events"].as_array().unwrap().iter().find(is_verdict).unwrap();
        assert_eq!(verdict["event_data"]["evidence"], evidence);
        sandboxes.push(sandbox);
    }
    assert_ne!(sandboxes[0], sandboxes[1], "each attempt has its own sandbox");
    for sandbox in &sandboxes {
        assert_eq!(api.get(&format!("/sandbox/{sandbox}/task")).await["status"], "completed");
    }
    let task = api.get("/tasks/t").await;
    assert_eq!((&task["attempt"], &task["feedback"]), (&json!(2), &json!("Look again.\n- Test it.")));
    assert_eq!(task["result"], json!({"pr_url": "https://example.com/1"}));
}
