//! A task comes in.

use super::{Desk, acme, ids, task_id};
use crate::support::{OPERATOR, user};
use app::Clock;
use serde_json::{Value, json};

#[tokio::test]
async fn a_task_is_created_with_every_field_and_stands_in_the_queue() {
    let mut desk = Desk::open().await;
    let ticket = desk.ticket("k-1").await;
    desk.stage.jobs().await;
    let wish = json!({
        "ticket_id": "k-1", "project_id": "p-1", "task_type": "write_tests", "title": " Test it ",
        "description": "All of it.\n", "priority": "high", "phase_id": "PHASE_TESTING",
        "deadline_at": "2026-01-06T12:00:00Z", "timeout_seconds": 600, "max_retries": 1, "validation": true,
        "agent": "scripted:hello.jsonl", "model": "m-1", "repository": "acme/shop", "branch": "b", "provider": "shelf",
        "memory_gb": 8, "cpu": 4, "disk_gb": 10, "snapshot": "s", "continuous": true,
    });
    let shown = desk.create("t-1", wish).await;
    for (field, expected) in [
        ("id", json!("t-1")),
        ("ticket_id", json!("k-1")),
        ("project_id", json!("p-1")),
        ("task_type", json!("write_tests")),
        ("title", json!("Test it")),
        ("description", json!("All of it.\n")),
        ("priority", json!("HIGH")),
        ("phase_id", json!("PHASE_TESTING")),
        ("status", json!("pending")),
        ("deadline_at", json!("2026-01-06T12:00:00.000000Z")),
        ("timeout_seconds", json!(600)),
        ("max_retries", json!(1)),
        ("validation", json!(true)),
        ("sandbox_id", Value::Null),
        ("blocked", json!(false)),
        ("dependencies", json!({"depends_on": []})),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!(desk.get("/tasks/t-1").await, shown);
    let execution = serde_json::to_value(desk.stored("t-1").await.execution).unwrap();
    assert_eq!(
        execution,
        json!({
            "agent": "scripted:hello.jsonl", "model": "m-1", "repository": "acme/shop", "branch": "b",
            "provider": "shelf", "memory_gb": 8, "cpu": 4, "disk_gb": 10, "snapshot": "s", "continuous": true,
        })
    );
    assert_eq!(desk.stage.jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    assert_eq!(desk.log("t-1").await, ["task.created", "task.ready"]);
    let first = ticket["task_id"].as_str().unwrap();
    assert_eq!(desk.queue().await, [first, "t-1"], "one is of no project");
    let due = desk
        .stage
        .aws
        .store
        .due_candidates(&acme(), None, desk.stage.clock.now().plus_secs(90_000), 9)
        .await
        .unwrap();
    assert_eq!(due.candidates[0].id, task_id("t-1"));
}

/// The rules for each field are tested where they are: `contract::tasks`.
#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_stored() {
    let mut desk = Desk::open().await;
    let foreign = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/tasks", Some(foreign)).await.0, 201);
    let foreign = json!({"ticket_id": "k-theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/tickets", Some(foreign)).await.0, 201);
    desk.stage.jobs().await;
    for (body, status, field) in [
        (json!([]), 422, "body"),
        (json!({}), 422, "title"),
        (json!({"title": "t", "task_id": "a b"}), 422, "task_id"),
        (json!({"title": "t", "priority": "URGENT"}), 422, "priority"),
        (json!({"title": "t", "task_type": "sandbox"}), 422, "task_type"),
        (json!({"title": "t", "description": "x".repeat(100_001)}), 413, "description"),
        (json!({"title": "t", "timeout_seconds": 0}), 422, "timeout_seconds"),
        (json!({"title": "t", "timeout_seconds": 604_801}), 422, "timeout_seconds"),
        (json!({"title": "t", "max_retries": 11}), 422, "max_retries"),
        (json!({"title": "t", "memory_gb": 9}), 422, "memory_gb"),
        (json!({"title": "t", "deadline_at": "soon"}), 422, "deadline_at"),
        (json!({"title": "t", "task_id": "t-1", "depends_on": ["t-1"]}), 422, "depends_on"),
        (json!({"title": "t", "depends_on": ["nobody"]}), 422, "depends_on[0]"),
        (json!({"title": "t", "depends_on": ["theirs"]}), 422, "depends_on[0]"),
        (json!({"title": "t", "ticket_id": "nobody"}), 422, "ticket_id"),
        (json!({"title": "t", "ticket_id": "k-theirs"}), 422, "ticket_id"),
    ] {
        let (seen, problem) = desk.post("/tasks", body.clone()).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert!(ids(&desk.get("/tasks").await).is_empty());
    assert!(desk.queue().await.is_empty());
    assert!(desk.stage.jobs().await.is_empty());
}

#[tokio::test]
async fn a_repeat_is_the_same_task_and_another_under_its_id_is_refused() {
    let desk = Desk::open().await;
    desk.create("t-0", json!({})).await;
    let wish = json!({"task_id": "t-1", "title": "Fix it", "depends_on": ["t-0"]});
    let (status, first) = desk.post("/tasks", wish.clone()).await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(desk.post("/tasks", wish.clone()).await, (200, first));
    // However it is spelled, and whatever has become of it.
    desk.complete("t-0").await;
    let same = json!({"title": " Fix it ", "dependencies": {"depends_on": ["t-0"]}, "task_id": "t-1"});
    let (status, again) = desk.post("/tasks", same).await;
    assert_eq!((status, &again["blocked"]), (200, &json!(false)));
    assert_eq!(desk.log("t-1").await, ["task.created", "task.ready"]);
    assert_eq!(desk.stored("t-0").await.dependents, 0);
    let before = desk.stored("t-1").await;
    for (field, value) in [("title", json!("Break it")), ("depends_on", json!([])), ("cpu", json!(1))] {
        let mut other = wish.clone();
        other[field] = value;
        let (status, problem) = desk.post("/tasks", other).await;
        assert_eq!((status, &problem["code"]), (409, &json!("task_exists")), "{field}: {problem}");
    }
    // Somebody else's is taken, and that is all that is told.
    let (status, problem) = desk.ask(&user("rival", "admin"), "POST", "/tasks", Some(wish)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task_exists")));
    assert!(!problem.to_string().contains("acme"), "{problem}");
    assert_eq!(desk.stored("t-1").await, before);
}

#[tokio::test]
async fn creations_at_once_under_one_id_are_one_task() {
    let desk = Desk::open().await;
    desk.create("t-0", json!({})).await;
    let create = || desk.post("/tasks", json!({"task_id": "t-1", "title": "Fix it", "depends_on": ["t-0"]}));
    let (one, other, third) = tokio::join!(create(), create(), create());
    let mut statuses = [one.0, other.0, third.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    assert_eq!((&one.1, &other.1), (&other.1, &third.1));
    assert_eq!(desk.log("t-1").await, ["task.created"]);
    assert_eq!(desk.stored("t-0").await.dependents, 1);
    super::counting::recount(&desk).await;
}

#[tokio::test]
async fn a_ticket_that_nobody_approved_of_gets_no_tasks() {
    let desk = Desk::with_approval().await;
    let create = async |id: &str, ticket: &str| {
        desk.post("/tasks", json!({"task_id": id, "title": "Begin anyway", "ticket_id": ticket})).await
    };
    for ticket in ["k-waits", "k-rejected", "k-late", "k-approved"] {
        desk.ticket(ticket).await;
    }
    let no = json!({"rejection_reason": "No."});
    assert_eq!(desk.post("/tickets/k-rejected/reject", no).await.0, 200);
    assert_eq!(desk.post("/tickets/k-approved/approve", json!({})).await.0, 200);
    for (ticket, approval) in
        [("k-waits", "pending_review"), ("k-rejected", "rejected"), ("k-late", "timed_out")]
    {
        if ticket == "k-late" {
            desk.stage.clock.advance_secs(61);
            desk.work(&contract::jobs::Job::ReconcileTicket {
                ticket_id: domain::TicketId::parse(ticket).unwrap(),
            })
            .await;
        }
        let (status, problem) = create("t-1", ticket).await;
        assert_eq!((status, &problem["code"]), (409, &json!("ticket_not_approved")), "{problem}");
        assert_eq!((&problem["ticket_id"], &problem["approval_status"]), (&json!(ticket), &json!(approval)));
        assert!(problem["detail"].as_str().unwrap().contains("may not be worked on"), "{problem}");
        assert!(ids(&desk.get(&format!("/tasks?ticket_id={ticket}")).await).is_empty());
    }
    assert_eq!(create("t-1", "k-approved").await.0, 201);
    assert_eq!(ids(&desk.get("/tasks?ticket_id=k-approved").await).len(), 2);
}

#[tokio::test]
async fn an_operator_names_the_org_and_a_user_only_their_own() {
    let desk = Desk::open().await;
    let wish = |id: &str, org: Option<&str>| Some(json!({"task_id": id, "title": "Fix it", "org": org}));
    assert_eq!(desk.ask(OPERATOR, "POST", "/tasks", wish("t-1", Some("acme"))).await.0, 201);
    assert_eq!(desk.ask(OPERATOR, "POST", "/tasks", wish("t-2", None)).await.0, 201);
    assert_eq!(desk.stored("t-2").await.org.as_str(), "default");
    assert_eq!(desk.ask(&desk.member, "POST", "/tasks", wish("t-3", Some("rival"))).await.0, 403);
    assert_eq!(desk.ask(&desk.member, "POST", "/tasks", wish("t-3", None)).await.0, 201);
    assert_eq!(desk.ask(&user("acme", "viewer"), "POST", "/tasks", wish("t-4", None)).await.0, 403);
    let mut seen = ids(&desk.get("/tasks").await).into_iter().map(str::to_owned).collect::<Vec<_>>();
    seen.sort();
    assert_eq!(seen, ["t-1", "t-3"]);
}
