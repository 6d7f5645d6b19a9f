//! Completing a task unblocks its dependents: in bounded steps, and each one exactly once.

use super::consistency::check_counters;
use super::{TaskApi, acme, call, task_id};
use crate::orchestration::chaos::simulation::{change, task};
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::Task;
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

/// Stores dependents of a task. Much faster than a request for each.
async fn add_dependents(api: &TaskApi, id: &str, count: usize) {
    let (store, dependency) = (&api.harness.aws.store, api.stored(id).await);
    let now = app::Clock::now(api.harness.clock.as_ref());
    for first in (0..count).step_by(20) {
        let mut commit = Commit::new(now);
        for n in first..count.min(first + 20) {
            let fields = json!({"depends_on": [id], "unmet": 1});
            let task = task(&format!("{id}-{n:05}"), &acme(), now, fields);
            commit.edges.push(Edge::Add { task: dependency.id.clone(), dependent: task.id.clone() });
            commit.tasks.push(change(api.harness.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
    }
    let after = Task { dependents: count as u32, version: dependency.version + 1, ..dependency.clone() };
    let mut commit = Commit::new(now);
    commit.tasks.push(Change { before: Some(&dependency), after, events: Vec::new() });
    assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
}

/// Number of dependents that are still blocked.
async fn blocked_dependents(api: &TaskApi, id: &str) -> usize {
    api.harness.aws.store.dependents(&task_id(id), 10_000).await.unwrap().len()
}

#[tokio::test]
async fn report_unblocks_100_dependents_and_a_job_the_rest() {
    let mut api = TaskApi::open().await;
    api.create("t", json!({})).await;
    add_dependents(&api, "t", 130).await;
    let done = api.complete("t").await;
    assert_eq!(
        (&done["new_status"], done["unblocked_tasks"].as_array().unwrap().len()),
        (&json!("completed"), 50)
    );
    assert_eq!(blocked_dependents(&api, "t").await, 30);
    let job_body = json!({"job": "reconcile_task", "task_id": "t"});
    assert!(api.take_jobs("reconcile_task").await.contains(&job_body), "a job is sent for the rest");
    api.run_job(&Job::decode(&job_body.to_string()).unwrap()).await;
    assert_eq!(
        api.take_jobs("reconcile_task").await,
        Vec::<serde_json::Value>::new(),
        "all dependents are unblocked"
    );
    assert_eq!((blocked_dependents(&api, "t").await, api.stored("t").await.dependents), (0, 0));
    assert_eq!(api.queue().await.len(), 130);
    check_counters(&api).await;
}

#[tokio::test]
async fn review_unblocks_100_dependents_and_a_retry_the_rest() {
    let mut api = TaskApi::open().await;
    api.create("t", json!({"validation": true})).await;
    add_dependents(&api, "t", 130).await;
    api.complete("t").await;
    assert_eq!(blocked_dependents(&api, "t").await, 130, "the result is not reviewed yet");
    let path = format!("/sandboxes/{}/validation-result", api.stored("t").await.sandbox.unwrap());
    let review = json!({"task_id": "t", "passed": true, "feedback": "Good."});
    let (status, first) = api.post(&path, review.clone()).await;
    assert_eq!((status, &first["new_task_status"]), (200, &json!("completed")), "{first}");
    assert_eq!(blocked_dependents(&api, "t").await, 30);
    assert!(
        api.take_jobs("reconcile_task").await.contains(&json!({"job": "reconcile_task", "task_id": "t"}))
    );
    assert_eq!(api.post(&path, review).await, (200, first));
    assert_eq!(blocked_dependents(&api, "t").await, 0);
    check_counters(&api).await;
}

#[tokio::test]
async fn job_unblocks_1000_dependents_and_schedules_the_next() {
    let mut api = TaskApi::open().await;
    api.create("t", json!({})).await;
    add_dependents(&api, "t", 1_130).await;
    api.complete("t").await;
    api.harness.take_jobs().await;
    let job_body = json!({"job": "reconcile_task", "task_id": "t"});
    let job = Job::decode(&job_body.to_string()).unwrap();
    api.run_job(&job).await;
    assert_eq!(blocked_dependents(&api, "t").await, 30);
    assert_eq!(api.take_jobs("reconcile_task").await, [job_body]);
    api.run_job(&job).await;
    assert_eq!(blocked_dependents(&api, "t").await, 0);
    assert!(api.take_jobs("reconcile_task").await.is_empty());
    assert_eq!(api.stored("t").await.dependents, 0);
}

/// Dependencies change after a task has completed and before its dependents are unblocked.
#[tokio::test]
async fn completed_dependency_can_be_removed_before_dependents_are_unblocked() {
    let api = TaskApi::open().await;
    api.create("a", json!({})).await;
    api.create("other", json!({})).await;
    for id in ["removes", "replaces", "adds", "stays"] {
        api.create(id, json!({"depends_on": ["a"]})).await;
    }
    let sandbox = api.start("a").await;
    api.emit(&sandbox, "agent.completed", json!({"success": true})).await;
    api.reconcile(&sandbox).await;
    assert_eq!(
        (api.stored("a").await.status.as_str(), blocked_dependents(&api, "a").await),
        ("completed", 4)
    );
    let remove = "/tasks/removes/dependencies/a";
    let (status, task) = api.call(&api.member, "DELETE", remove, None).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(false)), "{task}");
    assert_eq!(api.change_dependencies("PUT", "replaces", &["other"]).await.1["blocked"], true);
    assert_eq!(api.change_dependencies("POST", "adds", &["other"]).await.1["blocked"], true);
    // A completed dependency does not block.
    api.create("late", json!({})).await;
    assert_eq!(api.change_dependencies("POST", "late", &["a"]).await.1["blocked"], false);
    check_counters(&api).await;
    for _ in 0..2 {
        api.run_job(&Job::ReconcileTask { task_id: task_id("a") }).await;
    }
    for (id, unmet) in [("removes", 0), ("replaces", 1), ("adds", 1), ("stays", 0), ("late", 0)] {
        assert_eq!(api.stored(id).await.unmet, unmet, "{id}");
    }
    check_counters(&api).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependency_that_completes_concurrently_is_counted_once() {
    let api = TaskApi::open().await;
    for round in 0..20 {
        let names = ["a", "adds", "removes"].map(|name| format!("{name}-{round}"));
        let [dependency, adds, removes] = &names;
        api.create(dependency, json!({})).await;
        let sandbox = api.assign(dependency).await;
        api.create(adds, json!({})).await;
        api.create(removes, json!({"depends_on": [dependency]})).await;
        let spawn = |method: &'static str, path: String, body: Option<serde_json::Value>| {
            let plane = api.plane.clone();
            tokio::spawn(async move { call(&plane, OPERATOR, method, &path, body).await })
        };
        let (done, added, removed) = tokio::join!(
            spawn(
                "POST",
                format!("/sandboxes/{sandbox}/task-complete"),
                Some(json!({"task_id": dependency}))
            ),
            spawn("POST", format!("/tasks/{adds}/dependencies"), Some(json!({"depends_on": [dependency]}))),
            spawn("DELETE", format!("/tasks/{removes}/dependencies/{dependency}"), None),
        );
        for answer in [done, added, removed] {
            let (status, answer) = answer.unwrap();
            assert_eq!(status, 200, "{answer}");
        }
        // The job unblocks all dependents, including those added in the meantime.
        api.run_job(&Job::ReconcileTask { task_id: task_id(dependency) }).await;
        let queue = api.queue().await;
        assert!(queue.contains(adds) && queue.contains(removes), "{round}: {queue:?}");
    }
    check_counters(&api).await;
}
