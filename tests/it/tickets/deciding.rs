//! Tickets that somebody has to approve of.

use super::Desk;
use crate::payloads::{fixture, job};
use crate::stage::invoke;
use serde_json::{Value, json};

async fn approve(desk: &Desk) -> (u64, Value) {
    desk.ask("tickets-approve", &desk.member, "POST", "/k-1/approve", None).await
}

async fn reject(desk: &Desk, reason: &Value) -> (u64, Value) {
    let body = json!({"rejection_reason": reason});
    desk.ask("tickets-reject", &desk.member, "POST", "/k-1/reject", Some(&body)).await
}

/// A sweep, and what it asks for.
async fn sweep(desk: &mut Desk) -> Vec<Value> {
    invoke(&desk.plane, "sandboxes-sweep", &fixture("schedule-tick")).await.unwrap();
    desk.jobs().await
}

#[tokio::test]
async fn an_approved_ticket_is_worked_on_and_not_before() {
    let mut desk = Desk::with_approval().await;
    let terms = json!({"max_retries": 0, "timeout_seconds": 60, "cpu": 1, "repository": "acme/shop"});
    let ticket = desk.created("k-1", terms).await;
    assert_eq!(ticket["approval_status"], "pending_review");
    assert_eq!(ticket["approval_deadline_at"], "2026-01-05T12:01:01.000000Z");
    assert_eq!(ticket["task_id"], Value::Null);
    assert_eq!(desk.get("k-1").await["tasks"], json!([]));
    assert!(desk.jobs().await.is_empty());
    let (status, approved) = approve(&desk).await;
    assert_eq!((status, &approved["approval_status"]), (200, &json!("approved")), "{approved}");
    assert_eq!(approved["reviewed_by"], "u-1");
    assert_eq!(desk.jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    let shown = desk.get("k-1").await;
    assert_eq!(shown["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(shown["tasks"][0]["id"], approved["task_id"]);
    assert_eq!(shown["tasks"][0]["task_type"], "implement_feature", "a quick ticket too");
    let task = domain::TaskId::parse(approved["task_id"].as_str().unwrap()).unwrap();
    let task = desk.stage.aws.store.task(&task).await.unwrap().unwrap();
    assert!(task.place.is_some(), "it stands in the queue");
    assert_eq!((task.max_retries, task.timeout_secs, task.execution.cpu), (0, Some(60), Some(1)));
    assert_eq!(task.execution.repository.as_deref(), Some("acme/shop"));
    assert_eq!(desk.events("k-1").await, ["ticket.created", "ticket.approved"]);
    // It was decided: nobody decides again, and no sweep does.
    for (status, problem) in [approve(&desk).await, reject(&desk, &json!("No.")).await] {
        assert_eq!((status, &problem["code"]), (409, &json!("not_pending")));
        assert_eq!(problem["approval_status"], "approved");
        assert!(problem["detail"].as_str().unwrap().contains("does not wait for approval"), "{problem}");
    }
    desk.stage.clock.advance_secs(3600);
    assert_eq!(sweep(&mut desk).await, [json!({"job": "dispatch", "org": "acme"})]);
    assert_eq!(desk.get("k-1").await["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_rejected_ticket_is_kept_and_nobody_works_on_it() {
    let mut desk = Desk::with_approval().await;
    desk.created("k-1", json!({})).await;
    for wrong in [json!(null), json!(""), json!(7)] {
        let (status, problem) = reject(&desk, &wrong).await;
        assert_eq!((status, &problem["field"]), (422, &json!("rejection_reason")));
    }
    let (status, rejected) = reject(&desk, &json!("Not now.")).await;
    assert_eq!((status, &rejected["approval_status"]), (200, &json!("rejected")));
    assert_eq!(
        (&rejected["rejection_reason"], &rejected["reviewed_by"]),
        (&json!("Not now."), &json!("u-1"))
    );
    assert_eq!(approve(&desk).await.0, 409);
    let shown = desk.get("k-1").await;
    assert_eq!((&shown["tasks"], &shown["approval_status"]), (&json!([]), &json!("rejected")));
    assert_eq!(desk.list("approval_status=rejected").await["tickets"].as_array().unwrap().len(), 1);
    assert_eq!(desk.events("k-1").await, ["ticket.created", "ticket.rejected"]);
    desk.stage.clock.advance_secs(3600);
    assert!(sweep(&mut desk).await.is_empty(), "nothing is left to be looked after");
}

#[tokio::test]
async fn a_ticket_that_nobody_looks_at_in_time_times_out() {
    let mut desk = Desk::with_approval().await;
    desk.created("k-1", json!({})).await;
    desk.stage.clock.advance_secs(59);
    assert!(sweep(&mut desk).await.is_empty(), "there is still time");
    desk.stage.clock.advance_secs(1);
    let due = sweep(&mut desk).await;
    assert_eq!(due, [json!({"job": "tend_ticket", "ticket_id": "k-1"})]);
    for _ in 0..2 {
        let done = invoke(&desk.plane, "sandboxes-dispatch", &job(&due[0].to_string())).await.unwrap();
        assert_eq!(done, json!({"batchItemFailures": []}));
    }
    let shown = desk.get("k-1").await;
    assert_eq!(shown["approval_status"], "timed_out");
    assert_eq!(shown["rejection_reason"], "Approval timeout exceeded");
    assert_eq!(desk.events("k-1").await, ["ticket.created", "ticket.timed_out"]);
    assert!(sweep(&mut desk).await.is_empty());
    let (status, problem) = approve(&desk).await;
    assert_eq!((status, &problem["approval_status"]), (409, &json!("timed_out")));
}

#[tokio::test]
async fn of_two_decisions_at_once_one_counts() {
    let desk = Desk::with_approval().await;
    desk.created("k-1", json!({})).await;
    let no = json!("No.");
    let (yes, again, no) = tokio::join!(approve(&desk), approve(&desk), reject(&desk, &no));
    let mut statuses = [yes.0, again.0, no.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    let shown = desk.get("k-1").await;
    let tasks = usize::from(shown["approval_status"] == "approved");
    assert_eq!(shown["tasks"].as_array().unwrap().len(), tasks);
    assert_eq!(desk.events("k-1").await.len(), 2);
}
