//! Progress of a ticket: worker reports, reviews, follow-up tasks and failures.

use super::TicketApi;
use crate::harness::{body_of, invoke};
use crate::payloads::request;
use crate::support::OPERATOR;
use app::Clock;
use domain::attempt::{Assignment, Provisioning, Stage};
use domain::{Sandbox, SandboxId, Task, TaskId};
use serde_json::{Value, json};
use store::commit::{Change, Commit, Committed};

#[tokio::test]
async fn report_is_logged_in_full_and_summarized_in_the_task() {
    let api = TicketApi::open().await;
    let task = task_of(&api.create("k-1", json!({})).await);
    let sandbox = start_work(&api, &task).await;
    let artifacts = json!([{"type": "test_coverage", "content": {"percentage": 80}}]);
    let result = json!({"output": "done", "artifacts": artifacts, "their_own": {"notes": ["a", "b"]}});
    // On retry, nothing is logged twice.
    for _ in 0..2 {
        let (status, answer) = report(&api, &sandbox, json!({"task_id": task, "result": result})).await;
        assert_eq!((status, &answer["new_status"]), (200, &json!("completed")), "{answer}");
    }
    let log = events(&api, &sandbox).await;
    let names: Vec<&Value> = log.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(names, ["agent.completed", "sandbox.spawned", "sandbox.running", "sandbox.completing"]);
    let mut logged = result.clone();
    logged["task_id"] = json!(task);
    assert_eq!((&log[0]["event_data"], &log[0]["source"]), (&logged, &json!("agent")));
    assert_eq!(stored_result(&api, &task).await, json!({"output": "done", "artifacts": artifacts}));
    let other = json!({"task_id": task, "success": false, "error_message": "or not"});
    assert_eq!(report(&api, &sandbox, other).await.0, 409, "the first outcome is final");
    assert_eq!(events(&api, &sandbox).await.len(), 4);
}

#[tokio::test]
async fn failure_report_is_logged_in_full() {
    let api = TicketApi::open().await;
    let failing = task_of(&api.create("k-1", json!({"max_retries": 0})).await);
    let sandbox = start_work(&api, &failing).await;
    let error = format!("{} and that is why", "no disk ".repeat(1_000));
    let body = json!({"task_id": failing, "success": false, "error_message": error, "result": {"tried": 3}});
    assert_eq!(report(&api, &sandbox, body).await.0, 200);
    let event = &events(&api, &sandbox).await[0];
    assert_eq!(event["event_type"], "agent.failed");
    assert_eq!(event["event_data"], json!({"tried": 3, "task_id": failing, "error": error}));
    let task = stored_task(&api, &failing).await;
    assert_eq!(task.error.map(|error| error.len()), Some(domain::attempt::MAX_ERROR_CHARS));
}

#[tokio::test]
async fn large_result_is_truncated_in_the_task() {
    let api = TicketApi::open().await;
    let task = task_of(&api.create("k-1", json!({})).await);
    let sandbox = start_work(&api, &task).await;
    let result = json!({"turns": 3, "final_output": "🦀".repeat(5_000), "artifacts": [noise(800_000)]});
    let (status, answer) = report(&api, &sandbox, json!({"task_id": task, "result": result})).await;
    assert_eq!((status, &answer["new_status"]), (200, &json!("completed")), "{answer}");
    let stored = stored_result(&api, &task).await;
    assert_eq!(stored["truncated"], json!(["final_output", "artifacts"]));
    assert_eq!((&stored["turns"], &stored["artifacts"]), (&json!(3), &Value::Null));
    assert!(stored["final_output"].as_str() == Some("🦀".repeat(4_000).as_str()));
    let path = format!("/api/v1/sandboxes/{sandbox}/events/1/body");
    let (status, full) = call(&api, "events-body", "GET", &path, OPERATOR, None).await;
    assert!(
        status == 200 && full["artifacts"] == result["artifacts"],
        "the full result is in the event body: {status}"
    );
}

#[tokio::test]
async fn worker_cannot_review_its_own_result() {
    let api = TicketApi::open().await;
    let task = task_of(&api.create("k-1", json!({"validation": true})).await);
    let sandbox = start_work(&api, &task).await;
    let (_, answer) = report(&api, &sandbox, json!({"task_id": task, "result": {}})).await;
    assert_eq!(answer["new_status"], "validating");
    let path = format!("/api/v1/sandboxes/{sandbox}");
    let (_, token) =
        call(&api, "sandboxes-rotate-token", "POST", &format!("{path}/token"), OPERATOR, Some(&json!({})))
            .await;
    let review = json!({"task_id": task, "passed": true, "feedback": "Looks good to me"});
    let review_as = async |token: &str| {
        call(&api, "tasks-validate", "POST", &format!("{path}/validation-result"), token, Some(&review))
            .await
            .0
    };
    assert_eq!(review_as(token["worker_token"].as_str().unwrap()).await, 403);
    assert_eq!(stored_task(&api, &task).await.status.as_str(), "validating");
    assert_eq!(review_as(&api.member).await, 200);
    assert_eq!(stored_task(&api, &task).await.status.as_str(), "completed");
    assert_eq!(api.get("k-1").await["status"], "done");
}

#[tokio::test]
async fn phased_ticket_creates_an_implementation_task_after_analysis() {
    let mut api = TicketApi::open().await;
    let spec =
        json!({"workflow_mode": "spec_driven", "description": "Add a login page.", "priority": "HIGH"});
    let ticket = api.create("k-1", spec).await;
    assert_eq!(ticket["workflow_mode"], "phased");
    let analysis = task_of(&ticket);
    let sandbox = start_work(&api, &analysis).await;
    api.take_jobs().await;
    let done = json!({"task_id": analysis, "result": {"final_output": "Use PKCE."}});
    for _ in 0..2 {
        assert_eq!(report(&api, &sandbox, done.clone()).await.0, 200);
    }
    assert!(
        api.take_jobs().await.contains(&json!({"job": "dispatch", "org": "acme"})),
        "a dispatch job is sent"
    );
    let shown = api.get("k-1").await;
    let tasks = shown["tasks"].as_array().unwrap();
    let types: Vec<&Value> = tasks.iter().map(|task| &task["task_type"]).collect();
    assert_eq!(types.len(), 2, "a repeated report creates one follow-up task: {types:?}");
    let next = tasks.iter().find(|task| task["task_type"] == "implement_feature").unwrap();
    let next = TaskId::parse(next["id"].as_str().unwrap()).unwrap();
    let task = stored_task(&api, &next).await;
    assert!(task.place.is_some() && task.depends_on.is_empty(), "it is queued");
    assert!(task.description.starts_with("Add a login page.") && task.description.ends_with("Use PKCE."));
    assert_eq!(task.priority, domain::task::Priority::High);
    let sandbox = start_work(&api, &next).await;
    assert_eq!(report(&api, &sandbox, json!({"task_id": next, "result": {}})).await.0, 200);
    let shown = api.get("k-1").await;
    assert_eq!((&shown["status"], shown["tasks"].as_array().unwrap().len()), (&json!("done"), 2));
}

#[tokio::test]
async fn follow_up_task_after_review_tolerates_a_taken_id() {
    let mut api = TicketApi::open().await;
    let spec = json!({"workflow_mode": "phased", "validation": true});
    for (id, taken) in [("k-1", false), ("k-2", true)] {
        let analysis = task_of(&api.create(id, spec.clone()).await);
        let next = format!("{analysis}-implement");
        if taken {
            let body = json!({"task_id": next, "title": "I was here first"});
            assert_eq!(
                call(&api, "tasks-create", "POST", "/api/v1/tasks", &api.member, Some(&body)).await.0,
                201
            );
        }
        let sandbox = start_work(&api, &analysis).await;
        report(&api, &sandbox, json!({"task_id": analysis, "result": {}})).await;
        assert_eq!(api.get(id).await["tasks"].as_array().unwrap().len(), 1, "the result is not reviewed yet");
        api.take_jobs().await;
        let review = json!({"task_id": analysis, "passed": true, "feedback": ""});
        let path = format!("/api/v1/sandboxes/{sandbox}/validation-result");
        assert_eq!(call(&api, "tasks-validate", "POST", &path, &api.member, Some(&review)).await.0, 200);
        assert_eq!(stored_task(&api, &analysis).await.status.as_str(), "completed");
        let dispatched = api.take_jobs().await.contains(&json!({"job": "dispatch", "org": "acme"}));
        let count = api.get(id).await["tasks"].as_array().unwrap().len();
        assert_eq!((count, dispatched), if taken { (1, false) } else { (2, true) }, "{id}");
    }
}

#[tokio::test]
async fn failed_ticket_is_no_duplicate() {
    let api = TicketApi::open().await;
    let spec = json!({"title": "Fix the login bug"});
    let is_duplicate = async || api.post(spec.clone()).await.1["is_duplicate"] == true;
    let ticket = api.create("k-1", json!({"title": "Fix the login bug", "max_retries": 0})).await;
    let task = task_of(&ticket);
    assert!(is_duplicate().await, "it is in progress");
    let sandbox = start_work(&api, &task).await;
    let failed = json!({"task_id": task, "success": false, "error_message": "permission denied"});
    assert_eq!(report(&api, &sandbox, failed).await.0, 200);
    let shown = api.get("k-1").await;
    assert_eq!((&shown["is_blocked"], &shown["blocked_reason"]), (&json!(true), &json!("task_failed")));
    let first_attempt = ["ticket.created", "ticket.transitioned", "ticket.blocked"];
    assert_eq!(api.event_types("k-1").await, first_attempt, "a report implies that work has started");
    // After a retry it is in progress again and counts as a duplicate.
    let step = async |verb: &str| {
        let path = format!("/api/v1/tasks/{task}/{verb}");
        call(&api, &format!("tasks-{verb}"), "POST", &path, &api.member, Some(&json!({}))).await.0
    };
    assert_eq!(step("retry").await, 200);
    assert_eq!(api.get("k-1").await["is_blocked"], false);
    assert!(is_duplicate().await, "it is in progress again");
    assert_eq!(step("cancel").await, 200);
    assert_eq!(api.get("k-1").await["blocked_reason"], "task_cancelled");
    let expected = [&first_attempt[..], &["ticket.unblocked", "ticket.blocked"]].concat();
    assert_eq!(api.event_types("k-1").await, expected);
    let (status, second) = api.post(spec.clone()).await;
    assert_eq!((status, &second["status"]), (201, &json!("backlog")), "{second}");
    assert!(is_duplicate().await, "it duplicates the second ticket");
}

/// Stores a sandbox with a started worker for a queued task, as if it had been claimed and provisioned.
async fn start_work(api: &TicketApi, task: &TaskId) -> SandboxId {
    let (task, now) = (stored_task(api, task).await, api.harness.clock.now());
    let id = SandboxId::parse(format!("{}-{}", task.id, task.attempt + 1)).unwrap();
    let claimed = task.claim(id.clone(), now).expect("it is queued").task;
    let assignment = Assignment {
        task: task.id.clone(),
        ticket: task.ticket.clone(),
        attempt: claimed.attempt,
        provider: "process".into(),
    };
    let mut sandbox = Sandbox::assigned(id.clone(), task.org.clone(), "an attempt".into(), assignment, now);
    sandbox.transition(domain::sandbox::transitions::Trigger::ProvisioningStarted);
    sandbox.activity.provisioning = Some(Provisioning::recorded(now).at(Stage::Starting, now));
    let mut commit = Commit::new(now);
    commit.tasks.push(Change { before: Some(&task), after: claimed, events: Vec::new() });
    commit.sandboxes.push(Change { before: None, after: sandbox, events: Vec::new() });
    assert!(matches!(api.harness.aws.store.commit(commit).await.unwrap(), Committed::Done(_)));
    id
}

/// Reports the outcome of a task.
async fn report(api: &TicketApi, sandbox: &SandboxId, body: Value) -> (u64, Value) {
    let path = format!("/api/v1/sandboxes/{sandbox}/task-complete");
    call(api, "tasks-complete", "POST", &path, OPERATOR, Some(&body)).await
}

async fn call(
    api: &TicketApi,
    function: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> (u64, Value) {
    let answer = invoke(&api.plane, function, &request(method, path, token, body)).await.unwrap();
    (answer["statusCode"].as_u64().unwrap(), body_of(&answer))
}

async fn events(api: &TicketApi, sandbox: &SandboxId) -> Vec<Value> {
    let path = format!("/api/v1/sandboxes/{sandbox}/events?after_seq=0");
    let (status, page) = call(api, "events-list", "GET", &path, OPERATOR, None).await;
    assert_eq!(status, 200, "{page}");
    page["events"].as_array().unwrap().clone()
}

async fn stored_task(api: &TicketApi, id: &TaskId) -> Task {
    api.harness.aws.store.task(id).await.unwrap().unwrap()
}

async fn stored_result(api: &TicketApi, task: &TaskId) -> Value {
    serde_json::from_str(stored_task(api, task).await.result.unwrap().text()).unwrap()
}

fn task_of(ticket: &Value) -> TaskId {
    TaskId::parse(ticket["task_id"].as_str().unwrap()).unwrap()
}

/// Text that hardly compresses.
fn noise(bytes: usize) -> String {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}
