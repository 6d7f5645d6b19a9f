//! What a task waits for: added, replaced, removed, completed, failed and wanted after all.

use super::counting::recount;
use super::{Desk, task_id};
use crate::support::OPERATOR;
use contract::jobs::Job;
use serde_json::{Value, json};

impl Desk {
    /// A change of what a task waits for.
    pub async fn depend(&self, method: &str, id: &str, on: &[&str]) -> (u64, Value) {
        let path = format!("/tasks/{id}/dependencies");
        self.ask(&self.member, method, &path, Some(json!({"depends_on": on}))).await
    }

    async fn remove(&self, id: &str, one: &str) -> (u64, Value) {
        self.ask(&self.member, "DELETE", &format!("/tasks/{id}/dependencies/{one}"), None).await
    }
}

#[tokio::test]
async fn what_a_task_waits_for_is_added_replaced_and_removed() {
    let desk = Desk::open().await;
    for id in ["a", "b", "c", "t"] {
        desk.create(id, json!({})).await;
    }
    let (status, task) = desk.depend("POST", "t", &["a", "b", "a"]).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(true)), "{task}");
    assert_eq!(task["dependencies"], json!({"depends_on": ["a", "b"]}));
    assert_eq!(desk.queue().await.len(), 3, "it has left the queue");
    let before = desk.stored("t").await;
    assert_eq!(desk.depend("POST", "t", &["b"]).await.0, 200);
    assert_eq!(desk.depend("PUT", "t", &["b", "a"]).await.0, 200);
    assert_eq!(desk.stored("t").await.version, before.version, "a repeat changes nothing");
    let shown = desk.get("/tasks/t/dependencies").await;
    assert_eq!(
        shown,
        json!({"task_id": "t", "depends_on": ["a", "b"], "dependencies_complete": false, "blocked_tasks": []})
    );
    let (status, task) = desk.depend("PUT", "t", &["b", "c"]).await;
    assert_eq!((status, &task["dependencies"]["depends_on"]), (200, &json!(["b", "c"])));
    recount(&desk).await;
    let blocked = desk.get("/tasks/c/dependencies").await["blocked_tasks"].clone();
    assert_eq!(blocked, json!([{"id": "t", "description": "Task t", "status": "pending"}]));
    assert_eq!(desk.get("/tasks/a/dependencies").await["blocked_tasks"], json!([]));
    assert_eq!(desk.remove("t", "a").await.0, 404, "it does not wait for that any more");
    assert_eq!(desk.remove("t", "c").await.0, 200);
    let (status, task) = desk.remove("t", "b").await;
    assert_eq!((status, &task["blocked"]), (200, &json!(false)));
    assert!(desk.queue().await.contains(&"t".to_owned()), "it is ready again");
    let told = desk.log("t").await;
    let changes = told.iter().filter(|name| *name == "task.dependencies_changed").count();
    assert_eq!((changes, told.iter().filter(|name| *name == "task.ready").count()), (4, 2), "{told:?}");
    recount(&desk).await;
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_named_and_nothing_changes() {
    let desk = Desk::open().await;
    let theirs = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/tasks", Some(theirs)).await.0, 201);
    for id in ["a", "t"] {
        desk.create(id, json!({})).await;
    }
    let before = desk.stored("t").await;
    let many: Vec<String> = (0..41).map(|n| format!("t-{n}")).collect();
    for (body, field) in [
        (json!({}), "depends_on"),
        (json!({"depends_on": "a"}), "depends_on"),
        (json!({"depends_on": ["a", "a b"]}), "depends_on[1]"),
        (json!({"depends_on": ["a", "nobody"]}), "depends_on"),
        (json!({"depends_on": ["a", "theirs"]}), "depends_on"),
        (json!({"depends_on": many}), "depends_on"),
    ] {
        for method in ["POST", "PUT"] {
            let (status, problem) =
                desk.ask(&desk.member, method, "/tasks/t/dependencies", Some(body.clone())).await;
            assert_eq!((status, &problem["field"]), (422, &json!(field)), "{method} {body}: {problem}");
        }
    }
    assert_eq!(desk.stored("t").await, before);
    // What has begun cannot wait.
    desk.start("t").await;
    let (status, problem) = desk.depend("POST", "t", &["a"]).await;
    let expected = (409, &json!("task_not_pending"), &json!("running"));
    assert_eq!((status, &problem["code"], &problem["current_status"]), expected);
    recount(&desk).await;
}

#[tokio::test]
async fn a_task_is_ready_when_all_that_it_waits_for_is_completed() {
    let mut desk = Desk::open().await;
    for id in ["a", "b"] {
        desk.create(id, json!({})).await;
    }
    desk.create("t", json!({"depends_on": ["a", "b"]})).await;
    assert_eq!(desk.complete("a").await["unblocked_tasks"], json!([]));
    assert_eq!(desk.stored("t").await.unmet, 1);
    desk.stage.jobs().await;
    assert_eq!(desk.complete("b").await["unblocked_tasks"], json!(["t"]));
    assert_eq!(desk.queue().await, ["t"]);
    assert!(!desk.jobs("dispatch").await.is_empty(), "somebody is asked to claim it");
    assert_eq!(desk.log("t").await, ["task.created", "task.ready"]);
    assert_eq!(desk.get("/tasks/t/dependencies").await["dependencies_complete"], true);
    // What is completed is no obstacle for those that come later.
    desk.create("late", json!({"depends_on": ["a"]})).await;
    assert_eq!(desk.depend("POST", "t", &["late"]).await.1["blocked"], true);
    assert_eq!(desk.depend("PUT", "t", &["b"]).await.1["blocked"], false);
    recount(&desk).await;
}

/// Each way to end without a result, and each way out.
#[tokio::test]
async fn what_failed_or_was_cancelled_holds_its_dependants_until_it_is_retried_or_removed() {
    let desk = Desk::open().await;
    for verb in ["fail", "cancel"] {
        for way in ["retry", "remove"] {
            let (ahead, waits) = (format!("{verb}-{way}"), format!("{verb}-{way}-next"));
            desk.create(&ahead, json!({})).await;
            desk.create(&waits, json!({"depends_on": [&ahead]})).await;
            assert_eq!(desk.post(&format!("/tasks/{ahead}/{verb}"), json!({})).await.0, 200);
            desk.work(&Job::ReconcileTask { task_id: task_id(&ahead) }).await;
            desk.work(&Job::ReconcileTask { task_id: task_id(&waits) }).await;
            assert_eq!(desk.stored(&waits).await.unmet, 1, "{ahead}");
            assert!(!desk.queue().await.contains(&waits), "{waits} is held");
            if way == "retry" {
                assert_eq!(desk.post(&format!("/tasks/{ahead}/retry"), json!({})).await.0, 200);
                assert!(!desk.queue().await.contains(&waits), "{waits} waits for the retry");
                desk.complete(&ahead).await;
            } else {
                assert_eq!(desk.remove(&waits, &ahead).await.0, 200);
            }
            assert!(desk.queue().await.contains(&waits), "{waits} is free");
            recount(&desk).await;
        }
    }
}

/// A dependant that was cancelled itself is told all the same, and finds nothing in its way when it is wanted again.
#[tokio::test]
async fn a_cancelled_dependant_keeps_count() {
    let desk = Desk::open().await;
    desk.create("a", json!({})).await;
    desk.create("t", json!({"depends_on": ["a"]})).await;
    assert_eq!(desk.post("/tasks/t/cancel", json!({})).await.0, 200);
    desk.complete("a").await;
    let held = desk.stored("t").await;
    assert_eq!((held.status.as_str(), held.unmet, held.place), ("cancelled", 0, None));
    assert_eq!(desk.post("/tasks/t/retry", json!({})).await.0, 200);
    assert_eq!(desk.queue().await, ["t"]);
    recount(&desk).await;
}
