//! User actions on tasks: update, cancel, fail, retry.

use super::TaskApi;
use super::consistency::check_counters;
use crate::support::user;
use serde_json::{Value, json};

#[tokio::test]
async fn priority_change_reorders_the_queue() {
    let api = TaskApi::open().await;
    for id in ["first", "second", "third"] {
        api.create(id, json!({})).await;
    }
    assert_eq!(api.queue().await, ["first", "second", "third"]);
    let patch = async |id: &str, body: Value| {
        api.call(&api.member, "PATCH", &format!("/tasks/{id}"), Some(body)).await
    };
    let patch_body = json!({"title": "Now", "description": "At once.", "priority": "CRITICAL"});
    let (status, task) = patch("third", patch_body.clone()).await;
    assert_eq!(
        (status, &task["title"], &task["priority"]),
        (200, &json!("Now"), &json!("CRITICAL")),
        "{task}"
    );
    assert_eq!(api.queue().await, ["third", "first", "second"]);
    let before = api.stored("third").await;
    assert_eq!(patch("third", patch_body).await.0, 200);
    assert_eq!(api.stored("third").await, before, "a retry changes nothing");
    assert_eq!(patch("second", json!({"deadline_at": "2026-01-05T13:00:00Z"})).await.0, 200);
    check_counters(&api).await;
    let (status, task) = patch("second", json!({"deadline_at": null, "priority": "LOW"})).await;
    assert_eq!((status, &task["deadline_at"]), (200, &Value::Null));
    assert_eq!(api.queue().await, ["third", "first", "second"]);
    assert_eq!(api.event_types("third").await, ["task.created", "task.ready", "task.updated"]);
    check_counters(&api).await;
}

#[tokio::test]
async fn invalid_patch_is_rejected_and_changes_nothing() {
    let api = TaskApi::open().await;
    api.create("t", json!({})).await;
    let before = api.stored("t").await;
    for (body, status, field) in [
        (json!({"status": "completed"}), 422, "status"),
        (json!({"status": "whatever"}), 422, "status"),
        (json!({"title": "New", "status": "failed"}), 422, "status"),
        (json!({"depends_on": []}), 422, "depends_on"),
        (json!({"timeout_seconds": 5}), 422, "timeout_seconds"),
        (json!({"sandbox_id": "s-1"}), 422, "sandbox_id"),
        (json!({"org": "rival"}), 422, "org"),
        (json!({"title": ""}), 422, "title"),
        (json!({"priority": "URGENT"}), 422, "priority"),
        (json!({"deadline_at": "soon"}), 422, "deadline_at"),
        (json!({"description": "x".repeat(100_001)}), 413, "description"),
        (json!({}), 422, "body"),
    ] {
        let (seen, problem) = api.call(&api.member, "PATCH", "/tasks/t", Some(body.clone())).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert_eq!(api.stored("t").await, before);
    api.complete("t").await;
    let (status, problem) = api.call(&api.member, "PATCH", "/tasks/t", Some(json!({"title": "Other"}))).await;
    assert_eq!(
        (status, &problem["code"], &problem["current_status"]),
        (409, &json!("task_finished"), &json!("completed"))
    );
}

#[tokio::test]
async fn timeout_is_validated_and_applies_to_running_attempts() {
    let api = TaskApi::open().await;
    api.create("t", json!({})).await;
    for (timeout, status) in [
        (json!(1), 200),
        (json!(604_800), 200),
        (json!(0), 422),
        (json!(604_801), 422),
        (json!(-1), 422),
        (json!(1.5), 422),
        (json!("60"), 422),
        (Value::Null, 422),
    ] {
        let (seen, answer) = api.post("/tasks/t/set-timeout", json!({"timeout_seconds": timeout})).await;
        assert_eq!(seen, status, "{timeout}: {answer}");
        match status {
            200 => assert_eq!(answer["timeout_seconds"], timeout),
            _ => assert_eq!(answer["field"], "timeout_seconds"),
        }
    }
    assert_eq!(api.stored("t").await.timeout_secs, Some(604_800));
    assert_eq!(api.get("/tasks/t").await["times_out_at"], Value::Null, "it is not running yet");
    // It applies to an attempt that is already running.
    let sandbox = api.start("t").await;
    let since = api.stored("t").await.since;
    let (status, task) = api.post("/tasks/t/set-timeout", json!({"timeout_seconds": 5})).await;
    assert_eq!((status, &task["times_out_at"]), (200, &json!(since.plus_secs(5))));
    api.harness.clock.advance_secs(6);
    api.reconcile(&sandbox).await;
    let task = api.stored("t").await;
    assert_eq!(
        (task.status.as_str(), task.error.as_deref()),
        ("failed", Some("The task exceeded its timeout."))
    );
    assert_eq!(api.get("/tasks/t").await["times_out_at"], Value::Null, "it is not running anymore");
    let (status, problem) = api.post("/tasks/t/set-timeout", json!({"timeout_seconds": 60})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task_finished")));
}

/// In every status: the task finishes at once, its slot is released, and its sandbox is terminated.
#[tokio::test]
async fn unfinished_task_can_be_cancelled_or_failed_and_then_retried() {
    let mut api = TaskApi::open().await;
    for (verb, status, event, reason) in [
        ("cancel", "cancelled", "task.cancelled", "cancelled_by_request"),
        ("fail", "failed", "task.failed", "marked_failed_by_user"),
    ] {
        for status_before in ["pending", "claiming", "assigned", "running", "validating"] {
            let id = format!("{verb}-{status_before}");
            api.create(&id, json!({"validation": true, "project_id": "p-1"})).await;
            let sandbox = match status_before {
                "pending" => None,
                "claiming" => Some(api.claim(&id).await),
                "assigned" => Some(api.assign(&id).await),
                _ => Some(api.start(&id).await),
            };
            if status_before == "validating" {
                api.complete(&id).await;
            }
            api.harness.take_jobs().await;
            let path = format!("/tasks/{id}");
            let (seen, ended) = api.post(&format!("{path}/{verb}"), json!({})).await;
            let expected = json!({
                "task_id": id, "status": status, "old_status": status_before, "cancelled": verb == "cancel", "reason": reason,
            });
            assert_eq!((seen, ended), (200, expected));
            assert_eq!(api.event_types(&id).await.last().unwrap(), event);
            let jobs = api.take_jobs("reconcile_sandbox").await;
            if let Some(sandbox) = &sandbox {
                let expected = json!({"job": "reconcile_sandbox", "sandbox_id": sandbox});
                assert_eq!(jobs.contains(&expected), status_before != "validating", "{id}: {jobs:?}");
                api.reconcile(sandbox).await;
            }
            check_counters(&api).await;
            let before = api.stored(&id).await;
            for again in ["cancel", "fail"] {
                let (seen, problem) = api.post(&format!("{path}/{again}"), json!({"reason": "Again."})).await;
                assert_eq!(
                    (seen, &problem["code"], &problem["current_status"]),
                    (409, &json!("task_finished"), &json!(status))
                );
            }
            assert_eq!(api.stored(&id).await, before);
            let (seen, task) = api.post(&format!("{path}/retry"), json!({})).await;
            assert_eq!((seen, &task["status"], &task["retry_count"]), (200, &json!("pending"), &json!(0)));
            assert!(api.queue().await.contains(&id));
            let (seen, problem) = api.post(&format!("{path}/retry"), json!({})).await;
            assert_eq!((seen, &problem["code"]), (409, &json!("task_not_finished")));
            // The next attempt has another sandbox.
            let next = api.start(&id).await;
            assert_ne!(Some(next), sandbox);
            assert_eq!(
                api.post(&format!("{path}/cancel"), json!({"reason": "Enough."})).await.1["reason"],
                "Enough."
            );
        }
    }
    api.create("done", json!({})).await;
    api.complete("done").await;
    let (seen, problem) = api.post("/tasks/done/retry", json!({})).await;
    assert_eq!(
        (seen, &problem["code"], &problem["current_status"]),
        (409, &json!("task_not_finished"), &json!("completed"))
    );
    check_counters(&api).await;
}

/// Clients of OmoiOS send these values in the query, without a body.
#[tokio::test]
async fn reason_and_timeout_are_accepted_in_the_query() {
    let api = TaskApi::open().await;
    let post = async |path: &str, body: Option<Value>| api.call(&api.member, "POST", path, body).await;
    let too_long = "x".repeat(2_001);
    for verb in ["cancel", "fail"] {
        for (number, query, body, reason) in [
            (1, "Not+needed", None, "Not needed"),
            (2, "Not%20needed", Some(json!({})), "Not needed"),
            (3, "Not+needed", Some(json!({"reason": "Of the body"})), "Of the body"),
        ] {
            let id = format!("{verb}-{number}");
            api.create(&id, json!({})).await;
            for bad in ["", "%00", too_long.as_str()] {
                let (status, problem) = post(&format!("/tasks/{id}/{verb}?reason={bad}"), body.clone()).await;
                assert_eq!((status, &problem["field"]), (422, &json!("reason")), "{verb}: {problem}");
            }
            let (status, ended) = post(&format!("/tasks/{id}/{verb}?reason={query}"), body).await;
            assert_eq!((status, &ended["reason"]), (200, &json!(reason)), "{verb}: {ended}");
        }
    }
    api.create("t", json!({})).await;
    for (query, body, status, timeout) in [
        ("?timeout_seconds=60", None, 200, 60),
        ("?timeout_seconds=60", Some(json!({"timeout_seconds": 90})), 200, 90),
        ("?timeout_seconds=0", Some(json!({"timeout_seconds": 120})), 422, 90),
        ("?timeout_seconds=60", Some(json!({})), 422, 90),
        ("", None, 422, 90),
    ] {
        let (seen, response) = post(&format!("/tasks/t/set-timeout{query}"), body).await;
        assert_eq!(seen, status, "{query}: {response}");
        assert_eq!(api.stored("t").await.timeout_secs, Some(timeout));
    }
}

#[tokio::test]
async fn task_of_another_org_is_indistinguishable_from_a_missing_one() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    let before = api.stored("t-1").await;
    let rival = user("rival", "admin");
    for (method, path, body) in [
        ("GET", "", None),
        ("GET", "/events", None),
        ("GET", "/dependencies", None),
        ("PATCH", "", Some(json!({"title": "Mine"}))),
        ("POST", "/dependencies", Some(json!({"depends_on": []}))),
        ("PUT", "/dependencies", Some(json!({"depends_on": []}))),
        ("DELETE", "/dependencies/t-2", None),
        ("POST", "/cancel", Some(json!({}))),
        ("POST", "/fail", Some(json!({}))),
        ("POST", "/retry", Some(json!({}))),
        ("POST", "/set-timeout", Some(json!({"timeout_seconds": 60}))),
    ] {
        let call = async |id: &str| {
            let (status, mut problem) =
                api.call(&rival, method, &format!("/tasks/{id}{path}"), body.clone()).await;
            problem["request_id"] = Value::Null;
            (status, problem.to_string().replace(id, "?"))
        };
        let (foreign, absent) = (call("t-1").await, call("t-9").await);
        assert_eq!((foreign.0, &foreign), (404, &absent), "{method} {path}");
        let (status, problem) = api.call(&rival, method, &format!("/tasks/a%20b{path}"), body.clone()).await;
        assert_eq!((status, &problem["field"]), (422, &json!("task_id")), "{method} {path}");
    }
    assert_eq!(api.stored("t-1").await, before);
}
