//! A ticket comes in.

use super::{Desk, ids};
use crate::support::{OPERATOR, user};
use local::aws::Fault;
use serde_json::{Value, json};

#[tokio::test]
async fn a_ticket_is_created_with_its_first_task_in_the_queue() {
    let mut desk = Desk::open().await;
    let (status, ticket) = desk.create(json!({
        "description": "Add a login page\nWith OAuth, please.", "priority": "HIGH", "project_id": "p-1",
        "github_owner": "acme", "github_repo": "shop", "timeout_seconds": 600, "max_retries": 1, "validation": true,
        "agent": "scripted:hello.jsonl", "model": "m-1", "branch": "login", "memory_gb": 8,
    })).await;
    assert_eq!(status, 201, "{ticket}");
    assert_eq!(ticket["title"], "Add a login page With OAuth, please.");
    assert_eq!(ticket["description"], "Add a login page\nWith OAuth, please.");
    for (field, expected) in [
        ("org", "acme"),
        ("status", "backlog"),
        ("phase_id", "PHASE_BACKLOG"),
        ("priority", "HIGH"),
        ("project_id", "p-1"),
        ("approval_status", "approved"),
        ("workflow_mode", "quick"),
        ("repository", "acme/shop"),
        ("created_by", "u-1"),
    ] {
        assert_eq!(ticket[field], expected, "{field}");
    }
    assert_eq!(desk.jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    let id = ticket["id"].as_str().unwrap();
    assert_eq!(desk.events(id).await, ["ticket.created"]);
    let shown = desk.get(id).await;
    let tasks = shown["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["id"], ticket["task_id"]);
    assert_eq!(tasks[0]["status"], "pending");
    assert_eq!(tasks[0]["sandbox_id"], Value::Null);
    assert_eq!(tasks[0]["title"], "Implement: Add a login page With OAuth, please.");
    let task = domain::TaskId::parse(ticket["task_id"].as_str().unwrap()).unwrap();
    let task = desk.stage.aws.store.task(&task).await.unwrap().unwrap();
    assert_eq!(task.description, "Add a login page\nWith OAuth, please.");
    assert_eq!((task.timeout_secs, task.max_retries, task.validation), (Some(600), 1, true));
    let execution = &task.execution;
    assert_eq!(execution.agent.as_deref(), Some("scripted:hello.jsonl"));
    assert_eq!((execution.model.as_deref(), execution.branch.as_deref()), (Some("m-1"), Some("login")));
    assert_eq!((execution.repository.as_deref(), execution.memory_gb), (Some("acme/shop"), Some(8)));
    let acme = domain::OrgId::parse("acme").unwrap();
    let queue = desk.stage.aws.store.candidates(&acme, None, 10).await.unwrap();
    assert_eq!(queue.candidates.iter().map(|ready| &ready.id).collect::<Vec<_>>(), [&task.id]);
    let watched = desk.stage.aws.store.watched(None, 10).await.unwrap().watched;
    let ready = store::keys::Watched::Ready(acme, task.id);
    assert_eq!(watched, [ready], "that it stands in the queue is looked at, and nothing else yet");
}

#[tokio::test]
async fn a_phased_ticket_begins_with_its_requirements_and_a_phase_of_its_own_is_kept() {
    let desk = Desk::open().await;
    let ticket = desk.created("k-1", json!({"workflow_mode": "phased", "phase_id": "PHASE_DESIGN"})).await;
    assert_eq!((&ticket["workflow_mode"], &ticket["phase_id"]), (&json!("phased"), &json!("PHASE_DESIGN")));
    assert_eq!(desk.get("k-1").await["tasks"][0]["task_type"], "analyze_requirements");
}

#[tokio::test]
async fn a_repeat_after_a_lost_answer_is_one_ticket_and_one_task() {
    let mut desk = Desk::open().await;
    let wish = json!({"ticket_id": "k-1", "title": "Fix it", "description": "Now."});
    let (status, first) = desk.create(wish.clone()).await;
    assert_eq!(status, 201);
    let (status, again) = desk.create(wish.clone()).await;
    assert_eq!((status, &again), (200, &first), "the same answer, and no duplicate of itself");
    // What does not change the wish does not change the repeat.
    let same = json!({"title": " Fix it ", "description": "Now.", "ticket_id": "k-1", "force_create": true});
    assert_eq!(desk.create(same).await, (200, first));
    assert_eq!(desk.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(desk.events("k-1").await, ["ticket.created"]);
    assert_eq!(desk.jobs().await.len(), 1);
    for (field, value) in [("description", json!("Later.")), ("priority", json!("LOW")), ("cpu", json!(1))] {
        let mut other = wish.clone();
        other[field] = value;
        let (status, problem) = desk.create(other).await;
        assert_eq!((status, &problem["code"]), (409, &json!("ticket_changed")), "{field}: {problem}");
    }
}

#[tokio::test]
async fn an_id_of_another_org_is_taken_and_nothing_more_is_told() {
    let desk = Desk::open().await;
    desk.created("k-1", json!({"title": "Our secret plan"})).await;
    let wish = json!({"ticket_id": "k-1", "title": "Our secret plan", "check_duplicates": false});
    let (status, problem) = desk.create_as(&user("rival", "admin"), &wish).await;
    assert_eq!(
        (status, &problem["code"], &problem["detail"]),
        (409, &json!("ticket_id_taken"), &json!("The id k-1 is taken."))
    );
    let facts: Vec<&String> = problem.as_object().unwrap().keys().collect();
    assert!(!problem.to_string().contains("acme") && !problem.to_string().contains("secret"), "{facts:?}");
}

#[tokio::test]
async fn two_creations_at_once_under_one_id_are_one_ticket() {
    let desk = Desk::open().await;
    let wish = json!({"ticket_id": "k-1", "title": "Fix it"});
    let (one, other, third) =
        tokio::join!(desk.create(wish.clone()), desk.create(wish.clone()), desk.create(wish.clone()));
    let mut statuses = [one.0, other.0, third.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    assert_eq!((&one.1, &other.1), (&other.1, &third.1), "all are told of the same ticket and task");
    assert_eq!(desk.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(desk.events("k-1").await, ["ticket.created"]);
}

#[tokio::test]
async fn a_transaction_that_is_refused_is_tried_again_and_one_that_fails_leaves_nothing() {
    let desk = Desk::open().await;
    desk.stage.aws.faults.inject("TransactWriteItems", Fault::TransactionConflict);
    desk.created("k-1", json!({})).await;
    assert_eq!(desk.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
    for _ in 0..20 {
        desk.stage.aws.faults.inject("TransactWriteItems", Fault::Throttled);
    }
    let wish = json!({"ticket_id": "k-2", "title": "Another", "check_duplicates": false});
    let (status, _) = desk.create(wish).await;
    assert_eq!(status, 503);
    assert_eq!(ids(&desk.list("").await), ["k-1"]);
}

#[tokio::test]
async fn an_operator_names_the_org_and_a_user_only_their_own() {
    let desk = Desk::open().await;
    let wish = |org: &str| json!({"title": "Fix it", "org": org});
    let (status, ticket) = desk.create_as(OPERATOR, &wish("rival")).await;
    assert_eq!((status, &ticket["org"], &ticket["created_by"]), (201, &json!("rival"), &json!("operator")));
    let (status, ticket) = desk.create_as(OPERATOR, &json!({"title": "Fix it"})).await;
    assert_eq!((status, &ticket["org"]), (201, &json!("default")));
    assert_eq!(desk.create(wish("rival")).await.0, 403);
    assert_eq!(desk.create(wish("acme")).await.0, 201);
    assert_eq!(desk.create_as(&user("acme", "viewer"), &wish("acme")).await.0, 403);
}

/// The rules for each field are tested where they are: `contract::tickets`.
#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_stored() {
    let mut desk = Desk::open().await;
    for (body, status, field) in [
        (json!({}), 422, "title"),
        (json!({"title": ""}), 422, "title"),
        (json!({"title": "t", "priority": "URGENT"}), 422, "priority"),
        (json!({"title": "t", "similarity_threshold": 2}), 422, "similarity_threshold"),
        (json!({"title": "t", "ticket_id": "a b"}), 422, "ticket_id"),
        (json!({"title": "t", "max_retries": 11}), 422, "max_retries"),
        (json!({"title": "t", "memory_gb": 9}), 422, "memory_gb"),
        (json!({"title": "t", "cpu": 5}), 422, "cpu"),
        (json!({"title": "t", "disk_gb": 11}), 422, "disk_gb"),
        (json!({"title": "t", "snapshot": "a b"}), 422, "snapshot"),
        (json!({"title": "t", "github_owner": "acme"}), 422, "github_repo"),
        (json!({"title": "t", "description": "x".repeat(64 * 1024 + 1)}), 413, "description"),
        (json!([]), 422, "body"),
    ] {
        let (seen, problem) = desk.create(body.clone()).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert!(ids(&desk.list("").await).is_empty());
    assert!(desk.jobs().await.is_empty());
}
