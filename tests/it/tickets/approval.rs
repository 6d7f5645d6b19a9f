//! Tickets that require approval.

use super::TicketApi;
use crate::harness::invoke;
use crate::payloads::{fixture, job};
use crate::support::{OPERATOR, now_secs, user, user_with};
use serde_json::{Value, json};

async fn approve(api: &TicketApi) -> (u64, Value) {
    api.call("tickets-approve", &reviewer(), "POST", "/k-1/approve", None).await
}

/// Another member of the author's org.
fn reviewer() -> String {
    user_with(json!({"sub": "u-2", "org": "acme", "role": "member", "exp": now_secs() + 600}))
}

async fn reject(api: &TicketApi, reason: &Value) -> (u64, Value) {
    let body = json!({"rejection_reason": reason});
    api.call("tickets-reject", &api.member, "POST", "/k-1/reject", Some(&body)).await
}

/// Runs the sweep; returns the jobs that it sends.
async fn sweep(api: &mut TicketApi) -> Vec<Value> {
    invoke(&api.plane, "sandboxes-sweep", &fixture("schedule-tick")).await.unwrap();
    api.take_jobs().await
}

#[tokio::test]
async fn work_starts_only_after_approval() {
    let mut api = TicketApi::with_approval().await;
    let fields = json!({"max_retries": 0, "timeout_seconds": 60, "cpu": 1, "repository": "acme/shop"});
    let ticket = api.create("k-1", fields).await;
    assert_eq!(ticket["approval_status"], "pending_review");
    assert_eq!(ticket["approval_deadline_at"], "2026-01-05T12:01:01.000000Z");
    assert_eq!(ticket["task_id"], Value::Null);
    assert_eq!(api.get("k-1").await["tasks"], json!([]));
    assert!(api.take_jobs().await.is_empty());
    let (status, approved) = approve(&api).await;
    assert_eq!((status, &approved["approval_status"]), (200, &json!("approved")), "{approved}");
    assert_eq!((&approved["created_by"], &approved["reviewed_by"]), (&json!("u-1"), &json!("u-2")));
    assert_eq!(api.take_jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    let shown = api.get("k-1").await;
    assert_eq!(shown["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(shown["tasks"][0]["id"], approved["task_id"]);
    assert_eq!(
        shown["tasks"][0]["task_type"], "implement_feature",
        "a quick ticket starts with the implementation"
    );
    let task = domain::TaskId::parse(approved["task_id"].as_str().unwrap()).unwrap();
    let task = api.harness.aws.store.task(&task).await.unwrap().unwrap();
    assert!(task.place.is_some(), "it is queued");
    assert_eq!((task.max_retries, task.timeout_secs, task.execution.cpu), (0, Some(60), Some(1)));
    assert_eq!(task.execution.repository.as_deref(), Some("acme/shop"));
    assert_eq!(api.event_types("k-1").await, ["ticket.created", "ticket.approved"]);
    // The decision is final: neither a second request nor the sweep changes it.
    for (status, problem) in [approve(&api).await, reject(&api, &json!("No.")).await] {
        assert_eq!((status, &problem["code"]), (409, &json!("approval_not_pending")));
        assert_eq!(problem["approval_status"], "approved");
        assert!(problem["detail"].as_str().unwrap().contains("is not pending approval"), "{problem}");
    }
    api.harness.clock.advance_secs(3600);
    assert_eq!(sweep(&mut api).await, [json!({"job": "dispatch", "org": "acme"})]);
    assert_eq!(api.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn rejected_ticket_is_stored_without_tasks() {
    let mut api = TicketApi::with_approval().await;
    api.create("k-1", json!({})).await;
    for invalid in [json!(null), json!(""), json!(7)] {
        let (status, problem) = reject(&api, &invalid).await;
        assert_eq!((status, &problem["field"]), (422, &json!("rejection_reason")));
    }
    let (status, rejected) = reject(&api, &json!("Not now.")).await;
    assert_eq!((status, &rejected["approval_status"]), (200, &json!("rejected")));
    assert_eq!(
        (&rejected["rejection_reason"], &rejected["reviewed_by"]),
        (&json!("Not now."), &json!("u-1"))
    );
    assert_eq!(approve(&api).await.0, 409);
    let shown = api.get("k-1").await;
    assert_eq!((&shown["tasks"], &shown["approval_status"]), (&json!([]), &json!("rejected")));
    assert_eq!(api.list("approval_status=rejected").await["tickets"].as_array().unwrap().len(), 1);
    assert_eq!(api.event_types("k-1").await, ["ticket.created", "ticket.rejected"]);
    api.harness.clock.advance_secs(3600);
    assert!(sweep(&mut api).await.is_empty(), "nothing is left to reconcile");
}

#[tokio::test]
async fn unreviewed_ticket_times_out() {
    let mut api = TicketApi::with_approval().await;
    api.create("k-1", json!({})).await;
    api.harness.clock.advance_secs(59);
    assert!(sweep(&mut api).await.is_empty(), "there is still time");
    api.harness.clock.advance_secs(1);
    let due = sweep(&mut api).await;
    assert_eq!(due, [json!({"job": "reconcile_ticket", "ticket_id": "k-1"})]);
    for _ in 0..2 {
        let done = invoke(&api.plane, "sandboxes-dispatch", &job(&due[0].to_string())).await.unwrap();
        assert_eq!(done, json!({"batchItemFailures": []}));
    }
    let shown = api.get("k-1").await;
    assert_eq!(shown["approval_status"], "timed_out");
    assert_eq!(shown["rejection_reason"], "Approval timeout exceeded");
    assert_eq!(api.event_types("k-1").await, ["ticket.created", "ticket.timed_out"]);
    assert!(sweep(&mut api).await.is_empty());
    let (status, problem) = approve(&api).await;
    assert_eq!((status, &problem["approval_status"]), (409, &json!("timed_out")));
}

#[tokio::test]
async fn concurrent_decisions_commit_exactly_one() {
    let api = TicketApi::with_approval().await;
    api.create("k-1", json!({})).await;
    let no = json!("No.");
    let (yes, again, no) = tokio::join!(approve(&api), approve(&api), reject(&api, &no));
    let mut statuses = [yes.0, again.0, no.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    let shown = api.get("k-1").await;
    let tasks = usize::from(shown["approval_status"] == "approved");
    assert_eq!(shown["tasks"].as_array().unwrap().len(), tasks);
    assert_eq!(api.event_types("k-1").await.len(), 2);
}

#[tokio::test]
async fn author_cannot_approve_their_own_ticket() {
    let mut api = TicketApi::with_approval().await;
    api.create("k-1", json!({})).await;
    api.create("k-2", json!({"title": "Another one"})).await;
    for token in [&api.member, &user("acme", "admin")] {
        let (status, problem) = api.call("tickets-approve", token, "POST", "/k-1/approve", None).await;
        assert_eq!((status, &problem["code"]), (403, &json!("own_ticket")), "{problem}");
    }
    assert_eq!(api.get("k-1").await["approval_status"], "pending_review");
    assert_eq!(api.event_types("k-1").await, ["ticket.created"]);
    assert!(api.take_jobs().await.is_empty(), "no work is released");
    assert_eq!(approve(&api).await.0, 200, "another member may");
    let (status, approved) = api.call("tickets-approve", OPERATOR, "POST", "/k-2/approve", None).await;
    assert_eq!((status, &approved["reviewed_by"]), (200, &json!("operator:local")), "{approved}");
}
