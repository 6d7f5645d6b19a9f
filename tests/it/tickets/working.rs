//! What becomes of a ticket while it is worked on: what workers report, who judges it, what follows, and what is told
//! when nothing comes of it.

use super::Desk;
use crate::payloads::request;
use crate::stage::{body_of, invoke};
use crate::support::OPERATOR;
use app::Clock;
use domain::attempt::{Assignment, Spawn, Stage};
use domain::{Sandbox, SandboxId, Task, TaskId};
use serde_json::{Value, json};
use store::commit::{Change, Commit, Committed};

#[tokio::test]
async fn all_that_a_worker_reports_is_in_its_log_and_what_matters_in_its_task() {
    let desk = Desk::open().await;
    let task = task_of(&desk.created("k-1", json!({})).await);
    let sandbox = at_work(&desk, &task).await;
    let artifacts = json!([{"type": "test_coverage", "content": {"percentage": 80}}]);
    let result = json!({"output": "done", "artifacts": artifacts, "their_own": {"notes": ["a", "b"]}});
    // A repeat after a lost answer says nothing twice.
    for _ in 0..2 {
        let (status, answer) = report(&desk, &sandbox, json!({"task_id": task, "result": result})).await;
        assert_eq!((status, &answer["new_status"]), (200, &json!("completed")), "{answer}");
    }
    let log = events(&desk, &sandbox).await;
    let names: Vec<&Value> = log.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(names, ["agent.completed", "sandbox.spawned", "sandbox.running", "sandbox.completing"]);
    let mut said = result.clone();
    said["task_id"] = json!(task);
    assert_eq!((&log[0]["event_data"], &log[0]["source"]), (&said, &json!("agent")));
    assert_eq!(kept(&desk, &task).await, json!({"output": "done", "artifacts": artifacts}));
    let other = json!({"task_id": task, "success": false, "error_message": "or not"});
    assert_eq!(report(&desk, &sandbox, other).await.0, 409, "the first last word counts");
    assert_eq!(events(&desk, &sandbox).await.len(), 4);
}

#[tokio::test]
async fn a_report_of_a_failure_is_whole_in_the_log_and_a_large_result_ends_its_task_too() {
    let desk = Desk::open().await;
    let failing = task_of(&desk.created("k-1", json!({"max_retries": 0})).await);
    let sandbox = at_work(&desk, &failing).await;
    let error = format!("{} and that is why", "no disk ".repeat(1_000));
    let body = json!({"task_id": failing, "success": false, "error_message": error, "result": {"tried": 3}});
    assert_eq!(report(&desk, &sandbox, body).await.0, 200);
    let said = &events(&desk, &sandbox).await[0];
    assert_eq!(said["event_type"], "agent.failed");
    assert_eq!(said["event_data"], json!({"tried": 3, "task_id": failing, "error": error}));
    let task = store_task(&desk, &failing).await;
    assert_eq!(task.error.map(|error| error.len()), Some(domain::attempt::MAX_ERROR_CHARS));

    let large = task_of(&desk.created("k-2", json!({})).await);
    let sandbox = at_work(&desk, &large).await;
    let result = json!({"turns": 3, "final_output": "🦀".repeat(5_000), "artifacts": [noise(800_000)]});
    let (status, answer) = report(&desk, &sandbox, json!({"task_id": large, "result": result})).await;
    assert_eq!((status, &answer["new_status"]), (200, &json!("completed")), "{answer}");
    let kept = kept(&desk, &large).await;
    assert_eq!(kept["truncated"], json!(["final_output", "artifacts"]));
    assert_eq!((&kept["turns"], &kept["artifacts"]), (&json!(3), &Value::Null));
    assert!(kept["final_output"].as_str() == Some("🦀".repeat(4_000).as_str()));
    let path = format!("/api/v1/sandboxes/{sandbox}/events/1/body");
    let (status, whole) = ask(&desk, "events-body", "GET", &path, OPERATOR, None).await;
    assert!(
        status == 200 && whole["artifacts"] == result["artifacts"],
        "the reader can fetch the rest: {status}"
    );
}

#[tokio::test]
async fn a_worker_does_not_judge_its_own_result_and_a_person_does() {
    let desk = Desk::open().await;
    let task = task_of(&desk.created("k-1", json!({"validation": true})).await);
    let sandbox = at_work(&desk, &task).await;
    let (_, answer) = report(&desk, &sandbox, json!({"task_id": task, "result": {}})).await;
    assert_eq!(answer["new_status"], "validating");
    let path = format!("/api/v1/sandboxes/{sandbox}");
    let (_, token) =
        ask(&desk, "sandboxes-rotate-token", "POST", &format!("{path}/token"), OPERATOR, Some(&json!({})))
            .await;
    let judged = json!({"task_id": task, "passed": true, "feedback": "I am pleased with myself"});
    let judge = async |token: &str| {
        ask(&desk, "tasks-validate", "POST", &format!("{path}/validation-result"), token, Some(&judged))
            .await
            .0
    };
    assert_eq!(judge(token["worker_token"].as_str().unwrap()).await, 403);
    assert_eq!(store_task(&desk, &task).await.status.as_str(), "validating");
    assert_eq!(judge(&desk.member).await, 200);
    assert_eq!(store_task(&desk, &task).await.status.as_str(), "completed");
    assert_eq!(desk.get("k-1").await["status"], "done");
}

#[tokio::test]
async fn a_phased_ticket_goes_on_to_be_implemented_once_it_is_analyzed() {
    let mut desk = Desk::open().await;
    let wish =
        json!({"workflow_mode": "spec_driven", "description": "Add a login page.", "priority": "HIGH"});
    let ticket = desk.created("k-1", wish).await;
    assert_eq!(ticket["workflow_mode"], "phased");
    let analysis = task_of(&ticket);
    let sandbox = at_work(&desk, &analysis).await;
    desk.jobs().await;
    let done = json!({"task_id": analysis, "result": {"final_output": "Use PKCE."}});
    for _ in 0..2 {
        assert_eq!(report(&desk, &sandbox, done.clone()).await.0, 200);
    }
    assert!(
        desk.jobs().await.contains(&json!({"job": "dispatch", "org": "acme"})),
        "somebody looks at the queue"
    );
    let shown = desk.get("k-1").await;
    let tasks = shown["tasks"].as_array().unwrap();
    let types: Vec<&Value> = tasks.iter().map(|task| &task["task_type"]).collect();
    assert_eq!(types.len(), 2, "one follows, however often it is said: {types:?}");
    let next = tasks.iter().find(|task| task["task_type"] == "implement_feature").unwrap();
    let next = TaskId::parse(next["id"].as_str().unwrap()).unwrap();
    let task = store_task(&desk, &next).await;
    assert!(task.place.is_some() && task.depends_on.is_empty(), "it stands in the queue");
    assert!(task.description.starts_with("Add a login page.") && task.description.ends_with("Use PKCE."));
    assert_eq!(task.priority, domain::task::Priority::High);
    let sandbox = at_work(&desk, &next).await;
    assert_eq!(report(&desk, &sandbox, json!({"task_id": next, "result": {}})).await.0, 200);
    let shown = desk.get("k-1").await;
    assert_eq!((&shown["status"], shown["tasks"].as_array().unwrap().len()), (&json!("done"), 2));
}

#[tokio::test]
async fn an_analysis_that_somebody_judges_is_followed_too_and_an_id_that_is_taken_stops_nobody() {
    let mut desk = Desk::open().await;
    let wish = json!({"workflow_mode": "phased", "validation": true});
    for (id, taken) in [("k-1", false), ("k-2", true)] {
        let analysis = task_of(&desk.created(id, wish.clone()).await);
        let next = format!("{analysis}-implement");
        if taken {
            let body = json!({"task_id": next, "title": "I was here first"});
            assert_eq!(
                ask(&desk, "tasks-create", "POST", "/api/v1/tasks", &desk.member, Some(&body)).await.0,
                201
            );
        }
        let sandbox = at_work(&desk, &analysis).await;
        report(&desk, &sandbox, json!({"task_id": analysis, "result": {}})).await;
        assert_eq!(desk.get(id).await["tasks"].as_array().unwrap().len(), 1, "nobody has looked at it yet");
        desk.jobs().await;
        let judged = json!({"task_id": analysis, "passed": true, "feedback": ""});
        let path = format!("/api/v1/sandboxes/{sandbox}/validation-result");
        assert_eq!(ask(&desk, "tasks-validate", "POST", &path, &desk.member, Some(&judged)).await.0, 200);
        assert_eq!(store_task(&desk, &analysis).await.status.as_str(), "completed");
        let asked = desk.jobs().await.contains(&json!({"job": "dispatch", "org": "acme"}));
        let count = desk.get(id).await["tasks"].as_array().unwrap().len();
        assert_eq!((count, asked), if taken { (1, false) } else { (2, true) }, "{id}");
    }
}

#[tokio::test]
async fn a_ticket_whose_work_came_to_nothing_may_be_asked_for_again() {
    let desk = Desk::open().await;
    let wish = json!({"title": "Fix the login bug"});
    let is_duplicate = async || desk.create(wish.clone()).await.1["is_duplicate"] == true;
    let ticket = desk.created("k-1", json!({"title": "Fix the login bug", "max_retries": 0})).await;
    let task = task_of(&ticket);
    assert!(is_duplicate().await, "it is worked on");
    let sandbox = at_work(&desk, &task).await;
    let failed = json!({"task_id": task, "success": false, "error_message": "permission denied"});
    assert_eq!(report(&desk, &sandbox, failed).await.0, 200);
    let shown = desk.get("k-1").await;
    assert_eq!((&shown["is_blocked"], &shown["blocked_reason"]), (&json!(true), &json!("task_failed")));
    let worked_on = ["ticket.created", "ticket.transitioned", "ticket.blocked"];
    assert_eq!(desk.events("k-1").await, worked_on, "who says how it went has begun");
    // Somebody wants it after all: then it is worked on, and is what others would ask for.
    let step = async |verb: &str| {
        let path = format!("/api/v1/tasks/{task}/{verb}");
        ask(&desk, &format!("tasks-{verb}"), "POST", &path, &desk.member, Some(&json!({}))).await.0
    };
    assert_eq!(step("retry").await, 200);
    assert_eq!(desk.get("k-1").await["is_blocked"], false);
    assert!(is_duplicate().await, "it is worked on again");
    assert_eq!(step("cancel").await, 200);
    assert_eq!(desk.get("k-1").await["blocked_reason"], "task_cancelled");
    let told = [&worked_on[..], &["ticket.unblocked", "ticket.blocked"]].concat();
    assert_eq!(desk.events("k-1").await, told);
    let (status, second) = desk.create(wish.clone()).await;
    assert_eq!((status, &second["status"]), (201, &json!("backlog")), "{second}");
    assert!(is_duplicate().await, "of the second");
}

/// A sandbox for a task that waits, in which a worker was started: as if somebody had claimed the task and made one.
async fn at_work(desk: &Desk, task: &TaskId) -> SandboxId {
    let (task, now) = (store_task(desk, task).await, desk.stage.clock.now());
    let sandbox = SandboxId::parse(format!("{}-{}", task.id, task.attempt + 1)).unwrap();
    let claimed = task.claim(sandbox.clone(), now).expect("it stands in the queue").task;
    let assignment = Assignment {
        task: task.id.clone(),
        ticket: task.ticket.clone(),
        attempt: claimed.attempt,
        provider: "process".into(),
    };
    let mut head = Sandbox::assigned(sandbox.clone(), task.org.clone(), "a try".into(), assignment, now);
    head.status = domain::sandbox::Status::Creating;
    head.activity.spawn = Some(Spawn::recorded(now).at(Stage::Starting, now));
    let mut commit = Commit::new(now);
    commit.tasks.push(Change { before: Some(&task), after: claimed, events: Vec::new() });
    commit.sandboxes.push(Change { before: None, after: head, events: Vec::new() });
    assert!(matches!(desk.stage.aws.store.commit(commit).await.unwrap(), Committed::Done(_)));
    sandbox
}

/// What a worker says came of its task.
async fn report(desk: &Desk, sandbox: &SandboxId, body: Value) -> (u64, Value) {
    let path = format!("/api/v1/sandboxes/{sandbox}/task-complete");
    ask(desk, "tasks-complete", "POST", &path, OPERATOR, Some(&body)).await
}

async fn ask(
    desk: &Desk,
    function: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> (u64, Value) {
    let answer = invoke(&desk.plane, function, &request(method, path, token, body)).await.unwrap();
    (answer["statusCode"].as_u64().unwrap(), body_of(&answer))
}

async fn events(desk: &Desk, sandbox: &SandboxId) -> Vec<Value> {
    let path = format!("/api/v1/sandboxes/{sandbox}/events?after_seq=0");
    let (status, page) = ask(desk, "events-list", "GET", &path, OPERATOR, None).await;
    assert_eq!(status, 200, "{page}");
    page["events"].as_array().unwrap().clone()
}

async fn store_task(desk: &Desk, id: &TaskId) -> Task {
    desk.stage.aws.store.task(id).await.unwrap().unwrap()
}

async fn kept(desk: &Desk, task: &TaskId) -> Value {
    serde_json::from_str(store_task(desk, task).await.result.unwrap().text()).unwrap()
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
