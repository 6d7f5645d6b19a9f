//! Creating tickets.

use super::{TicketApi, ids};
use crate::support::{OPERATOR, user};
use local::aws::Fault;
use serde_json::{Value, json};

#[tokio::test]
async fn ticket_is_created_with_a_queued_first_task() {
    let mut api = TicketApi::open().await;
    let (status, ticket) = api.post(json!({
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
    assert_eq!(api.take_jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    let id = ticket["id"].as_str().unwrap();
    assert_eq!(api.event_types(id).await, ["ticket.created"]);
    let shown = api.get(id).await;
    let tasks = shown["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["id"], ticket["task_id"]);
    assert_eq!(tasks[0]["status"], "pending");
    assert_eq!(tasks[0]["sandbox_id"], Value::Null);
    assert_eq!(tasks[0]["title"], "Implement: Add a login page With OAuth, please.");
    let task = domain::TaskId::parse(ticket["task_id"].as_str().unwrap()).unwrap();
    let task = api.harness.aws.store.task(&task).await.unwrap().unwrap();
    assert_eq!(task.description, "Add a login page\nWith OAuth, please.");
    assert_eq!((task.timeout_secs, task.max_retries, task.validation), (Some(600), 1, true));
    let execution = &task.execution;
    assert_eq!(execution.agent.as_deref(), Some("scripted:hello.jsonl"));
    assert_eq!((execution.model.as_deref(), execution.branch.as_deref()), (Some("m-1"), Some("login")));
    assert_eq!((execution.repository.as_deref(), execution.memory_gb), (Some("acme/shop"), Some(8)));
    let acme = domain::OrgId::parse("acme").unwrap();
    let queue = api.harness.aws.store.candidates(&acme, None, 10).await.unwrap();
    assert_eq!(queue.items.iter().map(|ready| &ready.id).collect::<Vec<_>>(), [&task.id]);
    let watched = api.harness.aws.store.watched(None, 10).await.unwrap().items;
    let ready = store::keys::Watched::Ready(acme, task.id);
    assert_eq!(watched, [ready], "only the queued task is on the watch list");
}

#[tokio::test]
async fn phased_ticket_starts_with_requirements_analysis() {
    let api = TicketApi::open().await;
    let ticket = api.create("k-1", json!({"workflow_mode": "phased", "phase_id": "PHASE_DESIGN"})).await;
    assert_eq!((&ticket["workflow_mode"], &ticket["phase_id"]), (&json!("phased"), &json!("PHASE_DESIGN")));
    assert_eq!(api.get("k-1").await["tasks"][0]["task_type"], "analyze_requirements");
}

#[tokio::test]
async fn ticket_creation_is_idempotent() {
    let mut api = TicketApi::open().await;
    let spec = json!({"ticket_id": "k-1", "title": "Fix it", "description": "Now."});
    let (status, first) = api.post(spec.clone()).await;
    assert_eq!(status, 201);
    let (status, repeated) = api.post(spec.clone()).await;
    assert_eq!((status, &repeated), (200, &first), "the same response, and not a duplicate of itself");
    // An equivalent request is a retry too.
    let same = json!({"title": " Fix it ", "description": "Now.", "ticket_id": "k-1", "force_create": true});
    assert_eq!(api.post(same).await, (200, first));
    assert_eq!(api.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(api.event_types("k-1").await, ["ticket.created"]);
    assert_eq!(api.take_jobs().await.len(), 1);
    for (field, value) in [("description", json!("Later.")), ("priority", json!("LOW")), ("cpu", json!(1))] {
        let mut other = spec.clone();
        other[field] = value;
        let (status, problem) = api.post(other).await;
        assert_eq!((status, &problem["code"]), (409, &json!("ticket_changed")), "{field}: {problem}");
    }
}

#[tokio::test]
async fn id_conflict_with_another_org_reveals_nothing() {
    let api = TicketApi::open().await;
    api.create("k-1", json!({"title": "Our secret plan"})).await;
    let spec = json!({"ticket_id": "k-1", "title": "Our secret plan", "check_duplicates": false});
    let (status, problem) = api.post_as(&user("rival", "admin"), &spec).await;
    assert_eq!(
        (status, &problem["code"], &problem["detail"]),
        (409, &json!("ticket_id_taken"), &json!("The id k-1 is already taken."))
    );
    let keys: Vec<&String> = problem.as_object().unwrap().keys().collect();
    assert!(!problem.to_string().contains("acme") && !problem.to_string().contains("secret"), "{keys:?}");
}

#[tokio::test]
async fn concurrent_creations_with_one_id_create_one_ticket() {
    let api = TicketApi::open().await;
    let spec = json!({"ticket_id": "k-1", "title": "Fix it"});
    let (first, second, third) =
        tokio::join!(api.post(spec.clone()), api.post(spec.clone()), api.post(spec.clone()));
    let mut statuses = [first.0, second.0, third.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    assert_eq!((&first.1, &second.1), (&second.1, &third.1), "all receive the same ticket and task");
    assert_eq!(api.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(api.event_types("k-1").await, ["ticket.created"]);
}

#[tokio::test]
async fn transaction_conflict_is_retried() {
    let api = TicketApi::open().await;
    api.harness.aws.faults.inject("TransactWriteItems", Fault::TransactionConflict);
    api.create("k-1", json!({})).await;
    assert_eq!(api.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn failed_transaction_stores_nothing() {
    let api = TicketApi::open().await;
    for _ in 0..20 {
        api.harness.aws.faults.inject("TransactWriteItems", Fault::Throttled);
    }
    let spec = json!({"ticket_id": "k-1", "title": "Another", "check_duplicates": false});
    let (status, _) = api.post(spec).await;
    assert_eq!(status, 503);
    assert!(ids(&api.list("").await).is_empty());
}

#[tokio::test]
async fn only_operators_may_create_for_another_org() {
    let api = TicketApi::open().await;
    let spec = |org: &str| json!({"title": "Fix it", "org": org});
    let (status, ticket) = api.post_as(OPERATOR, &spec("rival")).await;
    assert_eq!(
        (status, &ticket["org"], &ticket["created_by"]),
        (201, &json!("rival"), &json!("operator:local"))
    );
    let (status, ticket) = api.post_as(OPERATOR, &json!({"title": "Fix it"})).await;
    assert_eq!((status, &ticket["org"]), (201, &json!("default")));
    assert_eq!(api.post(spec("rival")).await.0, 403);
    assert_eq!(api.post(spec("acme")).await.0, 201);
    assert_eq!(api.post_as(&user("acme", "viewer"), &spec("acme")).await.0, 403);
}

/// `contract::tickets` tests the rules of each field.
#[tokio::test]
async fn invalid_request_names_the_field_and_stores_nothing() {
    let mut api = TicketApi::open().await;
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
        let (seen, problem) = api.post(body.clone()).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert!(ids(&api.list("").await).is_empty());
    assert!(api.take_jobs().await.is_empty());
}
