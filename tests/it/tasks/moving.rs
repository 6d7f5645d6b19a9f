//! What people do to tasks: change them, call them off, give them up, want them after all.

use super::Desk;
use super::counting::recount;
use crate::support::user;
use serde_json::{Value, json};

#[tokio::test]
async fn a_change_of_urgency_moves_the_task_in_the_queue() {
    let desk = Desk::open().await;
    for id in ["first", "second", "third"] {
        desk.create(id, json!({})).await;
    }
    assert_eq!(desk.queue().await, ["first", "second", "third"]);
    let patch = async |id: &str, body: Value| {
        desk.ask(&desk.member, "PATCH", &format!("/tasks/{id}"), Some(body)).await
    };
    let words = json!({"title": "Now", "description": "At once.", "priority": "CRITICAL"});
    let (status, task) = patch("third", words.clone()).await;
    assert_eq!(
        (status, &task["title"], &task["priority"]),
        (200, &json!("Now"), &json!("CRITICAL")),
        "{task}"
    );
    assert_eq!(desk.queue().await, ["third", "first", "second"]);
    let before = desk.stored("third").await;
    assert_eq!(patch("third", words).await.0, 200);
    assert_eq!(desk.stored("third").await, before, "a repeat changes nothing");
    assert_eq!(patch("second", json!({"deadline_at": "2026-01-05T13:00:00Z"})).await.0, 200);
    recount(&desk).await;
    let (status, task) = patch("second", json!({"deadline_at": null, "priority": "LOW"})).await;
    assert_eq!((status, &task["deadline_at"]), (200, &Value::Null));
    assert_eq!(desk.queue().await, ["third", "first", "second"]);
    assert_eq!(desk.log("third").await, ["task.created", "task.ready", "task.updated"]);
    recount(&desk).await;
}

#[tokio::test]
async fn a_patch_cannot_make_nonsense_of_a_task() {
    let desk = Desk::open().await;
    desk.create("t", json!({})).await;
    let before = desk.stored("t").await;
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
        let (seen, problem) = desk.ask(&desk.member, "PATCH", "/tasks/t", Some(body.clone())).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert_eq!(desk.stored("t").await, before);
    desk.complete("t").await;
    let (status, problem) =
        desk.ask(&desk.member, "PATCH", "/tasks/t", Some(json!({"title": "Other"}))).await;
    assert_eq!(
        (status, &problem["code"], &problem["current_status"]),
        (409, &json!("task_over"), &json!("completed"))
    );
}

#[tokio::test]
async fn a_time_limit_has_bounds() {
    let desk = Desk::open().await;
    desk.create("t", json!({})).await;
    for (wanted, status) in [
        (json!(1), 200),
        (json!(604_800), 200),
        (json!(0), 422),
        (json!(604_801), 422),
        (json!(-1), 422),
        (json!(1.5), 422),
        (json!("60"), 422),
        (Value::Null, 422),
    ] {
        let (seen, answer) = desk.post("/tasks/t/set-timeout", json!({"timeout_seconds": wanted})).await;
        assert_eq!(seen, status, "{wanted}: {answer}");
        match status {
            200 => assert_eq!(answer["timeout_seconds"], wanted),
            _ => assert_eq!(answer["field"], "timeout_seconds"),
        }
    }
    assert_eq!(desk.stored("t").await.timeout_secs, Some(604_800));
    assert_eq!(desk.get("/tasks/t").await["times_out_at"], Value::Null, "it does not run yet");
    // It counts for a try that is at work already.
    let sandbox = desk.start("t").await;
    let since = desk.stored("t").await.since;
    let (status, task) = desk.post("/tasks/t/set-timeout", json!({"timeout_seconds": 5})).await;
    assert_eq!((status, &task["times_out_at"]), (200, &json!(since.plus_secs(5))));
    desk.stage.clock.advance_secs(6);
    desk.tend(&sandbox).await;
    let task = desk.stored("t").await;
    assert_eq!(
        (task.status.as_str(), task.error.as_deref()),
        ("failed", Some("The task ran for longer than it may."))
    );
    assert_eq!(desk.get("/tasks/t").await["times_out_at"], Value::Null, "it does not run any more");
    let (status, problem) = desk.post("/tasks/t/set-timeout", json!({"timeout_seconds": 60})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task_over")));
}

/// By hand, wherever the task stands: it is over at once, its slot is free, and its sandbox is taken down.
#[tokio::test]
async fn a_task_that_is_not_over_can_be_called_off_or_given_up_and_wanted_again() {
    let mut desk = Desk::open().await;
    for (verb, status, event, reason) in [
        ("cancel", "cancelled", "task.cancelled", "cancelled_by_request"),
        ("fail", "failed", "task.failed", "marked_failed_by_user"),
    ] {
        for begun in ["pending", "claiming", "assigned", "running", "validating"] {
            let id = format!("{verb}-{begun}");
            desk.create(&id, json!({"validation": true, "project_id": "p-1"})).await;
            let sandbox = match begun {
                "pending" => None,
                "claiming" => Some(desk.claim(&id).await),
                "assigned" => Some(desk.assign(&id).await),
                _ => Some(desk.start(&id).await),
            };
            if begun == "validating" {
                desk.complete(&id).await;
            }
            desk.stage.jobs().await;
            let path = format!("/tasks/{id}");
            let (seen, ended) = desk.post(&format!("{path}/{verb}"), json!({})).await;
            let expected = json!({
                "task_id": id, "status": status, "old_status": begun, "cancelled": verb == "cancel", "reason": reason,
            });
            assert_eq!((seen, ended), (200, expected));
            assert_eq!(desk.log(&id).await.last().unwrap(), event);
            let asked = desk.jobs("tend_sandbox").await;
            if let Some(sandbox) = &sandbox {
                let wanted = json!({"job": "tend_sandbox", "sandbox_id": sandbox});
                assert_eq!(asked.contains(&wanted), begun != "validating", "{id}: {asked:?}");
                desk.tend(sandbox).await;
            }
            recount(&desk).await;
            let before = desk.stored(&id).await;
            for again in ["cancel", "fail"] {
                let (seen, problem) =
                    desk.post(&format!("{path}/{again}"), json!({"reason": "Again."})).await;
                assert_eq!(
                    (seen, &problem["code"], &problem["current_status"]),
                    (409, &json!("task_over"), &json!(status))
                );
            }
            assert_eq!(desk.stored(&id).await, before);
            let (seen, task) = desk.post(&format!("{path}/retry"), json!({})).await;
            assert_eq!((seen, &task["status"], &task["retry_count"]), (200, &json!("pending"), &json!(0)));
            assert!(desk.queue().await.contains(&id));
            let (seen, problem) = desk.post(&format!("{path}/retry"), json!({})).await;
            assert_eq!((seen, &problem["code"]), (409, &json!("task_not_over")));
            // The next try is another sandbox.
            let next = desk.start(&id).await;
            assert_ne!(Some(next), sandbox);
            assert_eq!(
                desk.post(&format!("{path}/cancel"), json!({"reason": "Enough."})).await.1["reason"],
                "Enough."
            );
        }
    }
    desk.create("done", json!({})).await;
    desk.complete("done").await;
    let (seen, problem) = desk.post("/tasks/done/retry", json!({})).await;
    assert_eq!(
        (seen, &problem["code"], &problem["current_status"]),
        (409, &json!("task_not_over"), &json!("completed"))
    );
    recount(&desk).await;
}

#[tokio::test]
async fn a_task_of_another_org_looks_exactly_like_one_that_is_not_there() {
    let desk = Desk::open().await;
    desk.create("t-1", json!({})).await;
    let before = desk.stored("t-1").await;
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
        let ask = async |id: &str| {
            let (status, mut problem) =
                desk.ask(&rival, method, &format!("/tasks/{id}{path}"), body.clone()).await;
            problem["request_id"] = Value::Null;
            (status, problem.to_string().replace(id, "?"))
        };
        let (foreign, absent) = (ask("t-1").await, ask("t-9").await);
        assert_eq!((foreign.0, &foreign), (404, &absent), "{method} {path}");
        let (status, problem) = desk.ask(&rival, method, &format!("/tasks/a%20b{path}"), body.clone()).await;
        assert_eq!((status, &problem["field"]), (422, &json!("task_id")), "{method} {path}");
    }
    assert_eq!(desk.stored("t-1").await, before);
}
