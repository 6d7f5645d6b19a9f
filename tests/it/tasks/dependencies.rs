//! Dependencies of tasks: changing them, and when they unblock a task.

use super::consistency::check_counters;
use super::{TaskApi, task_id};
use crate::support::OPERATOR;
use contract::jobs::Job;
use serde_json::{Value, json};

impl TaskApi {
    /// Adds (`POST`) or replaces (`PUT`) dependencies.
    pub async fn change_dependencies(&self, method: &str, id: &str, on: &[&str]) -> (u64, Value) {
        let path = format!("/tasks/{id}/dependencies");
        self.call(&self.member, method, &path, Some(json!({"depends_on": on}))).await
    }

    async fn remove_dependency(&self, id: &str, dependency: &str) -> (u64, Value) {
        self.call(&self.member, "DELETE", &format!("/tasks/{id}/dependencies/{dependency}"), None).await
    }
}

#[tokio::test]
async fn dependencies_can_be_added_replaced_and_removed() {
    let api = TaskApi::open().await;
    for id in ["a", "b", "c", "t"] {
        api.create(id, json!({})).await;
    }
    let (status, task) = api.change_dependencies("POST", "t", &["a", "b", "a"]).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(true)), "{task}");
    assert_eq!(task["dependencies"], json!({"depends_on": ["a", "b"]}));
    assert_eq!(api.queue().await.len(), 3, "it has left the queue");
    let before = api.stored("t").await;
    assert_eq!(api.change_dependencies("POST", "t", &["b"]).await.0, 200);
    assert_eq!(api.change_dependencies("PUT", "t", &["b", "a"]).await.0, 200);
    assert_eq!(api.stored("t").await.version, before.version, "a retry changes nothing");
    let shown = api.get("/tasks/t/dependencies").await;
    assert_eq!(
        shown,
        json!({"task_id": "t", "depends_on": ["a", "b"], "dependencies_complete": false, "blocked_tasks": []})
    );
    let (status, task) = api.change_dependencies("PUT", "t", &["b", "c"]).await;
    assert_eq!((status, &task["dependencies"]["depends_on"]), (200, &json!(["b", "c"])));
    check_counters(&api).await;
    let blocked = api.get("/tasks/c/dependencies").await["blocked_tasks"].clone();
    assert_eq!(blocked, json!([{"id": "t", "description": "Task t", "status": "pending"}]));
    assert_eq!(api.get("/tasks/a/dependencies").await["blocked_tasks"], json!([]));
    assert_eq!(api.remove_dependency("t", "a").await.0, 404, "it is no longer a dependency");
    assert_eq!(api.remove_dependency("t", "c").await.0, 200);
    let (status, task) = api.remove_dependency("t", "b").await;
    assert_eq!((status, &task["blocked"]), (200, &json!(false)));
    assert!(api.queue().await.contains(&"t".to_owned()), "it is ready again");
    let event_types = api.event_types("t").await;
    let changes = event_types.iter().filter(|name| *name == "task.dependencies_changed").count();
    assert_eq!(
        (changes, event_types.iter().filter(|name| *name == "task.ready").count()),
        (4, 2),
        "{event_types:?}"
    );
    check_counters(&api).await;
}

#[tokio::test]
async fn invalid_dependency_is_named_and_changes_nothing() {
    let api = TaskApi::open().await;
    let theirs = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", Some(theirs)).await.0, 201);
    for id in ["a", "t"] {
        api.create(id, json!({})).await;
    }
    let before = api.stored("t").await;
    let many: Vec<String> = (0..41).map(|n| format!("t-{n}")).collect();
    for (body, field) in [
        (json!({}), "depends_on"),
        (json!({"depends_on": "a"}), "depends_on"),
        (json!({"depends_on": ["a", "a b"]}), "depends_on[1]"),
        (json!({"depends_on": ["a", "missing"]}), "depends_on"),
        (json!({"depends_on": ["a", "theirs"]}), "depends_on"),
        (json!({"depends_on": many}), "depends_on"),
    ] {
        for method in ["POST", "PUT"] {
            let (status, problem) =
                api.call(&api.member, method, "/tasks/t/dependencies", Some(body.clone())).await;
            assert_eq!((status, &problem["field"]), (422, &json!(field)), "{method} {body}: {problem}");
        }
    }
    assert_eq!(api.stored("t").await, before);
    // A running task accepts no dependencies.
    api.start("t").await;
    let (status, problem) = api.change_dependencies("POST", "t", &["a"]).await;
    let expected = (409, &json!("task_not_pending"), &json!("running"));
    assert_eq!((status, &problem["code"], &problem["current_status"]), expected);
    check_counters(&api).await;
}

#[tokio::test]
async fn task_is_ready_when_all_dependencies_are_completed() {
    let mut api = TaskApi::open().await;
    for id in ["a", "b"] {
        api.create(id, json!({})).await;
    }
    api.create("t", json!({"depends_on": ["a", "b"]})).await;
    assert_eq!(api.complete("a").await["unblocked_tasks"], json!([]));
    assert_eq!(api.stored("t").await.unmet, 1);
    api.harness.take_jobs().await;
    assert_eq!(api.complete("b").await["unblocked_tasks"], json!(["t"]));
    assert_eq!(api.queue().await, ["t"]);
    assert!(!api.take_jobs("dispatch").await.is_empty(), "a dispatch job is sent");
    assert_eq!(api.event_types("t").await, ["task.created", "task.ready"]);
    assert_eq!(api.get("/tasks/t/dependencies").await["dependencies_complete"], true);
    // A completed dependency does not block.
    api.create("late", json!({"depends_on": ["a"]})).await;
    assert_eq!(api.change_dependencies("POST", "t", &["late"]).await.1["blocked"], true);
    assert_eq!(api.change_dependencies("PUT", "t", &["b"]).await.1["blocked"], false);
    check_counters(&api).await;
}

/// Covers both ways to fail and both ways to unblock.
#[tokio::test]
async fn failed_dependency_blocks_until_it_is_retried_or_removed() {
    let api = TaskApi::open().await;
    for verb in ["fail", "cancel"] {
        for way in ["retry", "remove"] {
            let (dependency, dependent) = (format!("{verb}-{way}"), format!("{verb}-{way}-next"));
            api.create(&dependency, json!({})).await;
            api.create(&dependent, json!({"depends_on": [&dependency]})).await;
            assert_eq!(api.post(&format!("/tasks/{dependency}/{verb}"), json!({})).await.0, 200);
            api.run_job(&Job::ReconcileTask { task_id: task_id(&dependency) }).await;
            api.run_job(&Job::ReconcileTask { task_id: task_id(&dependent) }).await;
            assert_eq!(api.stored(&dependent).await.unmet, 1, "{dependency}");
            assert!(!api.queue().await.contains(&dependent), "{dependent} is blocked");
            if way == "retry" {
                assert_eq!(api.post(&format!("/tasks/{dependency}/retry"), json!({})).await.0, 200);
                assert!(
                    !api.queue().await.contains(&dependent),
                    "{dependent} is blocked until the retry completes"
                );
                api.complete(&dependency).await;
            } else {
                assert_eq!(api.remove_dependency(&dependent, &dependency).await.0, 200);
            }
            assert!(api.queue().await.contains(&dependent), "{dependent} is unblocked");
            check_counters(&api).await;
        }
    }
}

/// So that it is ready at once when it is retried.
#[tokio::test]
async fn cancelled_dependent_still_counts_completed_dependencies() {
    let api = TaskApi::open().await;
    api.create("a", json!({})).await;
    api.create("t", json!({"depends_on": ["a"]})).await;
    assert_eq!(api.post("/tasks/t/cancel", json!({})).await.0, 200);
    api.complete("a").await;
    let cancelled = api.stored("t").await;
    assert_eq!((cancelled.status.as_str(), cancelled.unmet, cancelled.place), ("cancelled", 0, None));
    assert_eq!(api.post("/tasks/t/retry", json!({})).await.0, 200);
    assert_eq!(api.queue().await, ["t"]);
    check_counters(&api).await;
}
