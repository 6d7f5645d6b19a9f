//! Dependencies never form a cycle, even under concurrent changes.

use super::consistency::check_counters;
use super::{TaskApi, acme, call, task_id};
use crate::orchestration::chaos::simulation::{change, task};
use domain::TaskId;
use domain::graph::MAX_LEVELS;
use serde_json::{Value, json};
use store::commit::{Commit, Committed, Edge};

#[tokio::test]
async fn dependency_cycle_is_rejected_and_named() {
    let api = TaskApi::open().await;
    api.create("a", json!({})).await;
    api.create("b", json!({"depends_on": ["a"]})).await;
    api.create("c", json!({"depends_on": ["b"]})).await;
    for (method, task, on, cycle) in [
        ("POST", "a", vec!["a"], vec!["a", "a"]),
        ("POST", "a", vec!["b"], vec!["a", "b", "a"]),
        ("POST", "a", vec!["c"], vec!["a", "c", "b", "a"]),
        ("PUT", "b", vec!["c"], vec!["b", "c", "b"]),
    ] {
        let before = api.stored(task).await;
        let (status, problem) = api.change_dependencies(method, task, &on).await;
        assert_eq!((status, &problem["code"]), (409, &json!("dependency_cycle")), "{problem}");
        assert_eq!(problem["cycle"], json!(cycle));
        assert!(problem["detail"].as_str().unwrap().contains(&cycle.join(" → ")), "{problem}");
        assert_eq!(api.stored(task).await, before);
    }
    check_counters(&api).await;
}

/// The two requests touch different tasks, so only the version of the whole graph makes them conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_cannot_close_a_cycle() {
    let api = TaskApi::open().await;
    for round in 0..20 {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("{name}-{round}"));
        for (id, on) in [(&a, vec![]), (&b, vec![&a]), (&c, vec![]), (&d, vec![&c])] {
            api.create(id, json!({"depends_on": on})).await;
        }
        let depend = |id: &str, on: &str| {
            let (plane, token) = (api.plane.clone(), api.member.clone());
            let (path, body) = (format!("/tasks/{id}/dependencies"), json!({"depends_on": [on]}));
            tokio::spawn(async move { call(&plane, &token, "POST", &path, Some(body)).await })
        };
        let (first, second) = tokio::join!(depend(&a, &d), depend(&c, &b));
        let (first, second) = (first.unwrap(), second.unwrap());
        let mut statuses = [first.0, second.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{first:?} {second:?}");
        let problem: &Value = if first.0 == 409 { &first.1 } else { &second.1 };
        assert_eq!(problem["code"], "dependency_cycle");
        assert_eq!(
            problem["cycle"].as_array().unwrap().len(),
            5,
            "all four tasks and the first again: {problem}"
        );
    }
    check_counters(&api).await;
}

/// Stores a chain of tasks, each of which depends on the one before it.
async fn chain(api: &TaskApi, length: usize) -> Vec<TaskId> {
    let now = app::Clock::now(api.harness.clock.as_ref());
    let ids: Vec<TaskId> = (0..length).map(|n| task_id(&format!("link-{n:04}"))).collect();
    for first in (0..length).step_by(20) {
        let mut commit = Commit::new(now);
        for n in first..length.min(first + 20) {
            let depends_on: Vec<&TaskId> = n.checked_sub(1).map(|before| &ids[before]).into_iter().collect();
            let fields = json!({
                "depends_on": depends_on, "unmet": depends_on.len(), "dependents": usize::from(n + 1 < length),
            });
            for dependency in depends_on {
                commit.edges.push(Edge::Add { task: dependency.clone(), dependent: ids[n].clone() });
            }
            let task = task(ids[n].as_str(), &acme(), now, fields);
            commit.tasks.push(change(api.harness.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        let written = api.harness.aws.store.commit(commit).await.unwrap();
        assert!(matches!(written, Committed::Done(_)), "{written:?}");
    }
    ids
}

#[tokio::test]
async fn cycle_search_is_bounded() {
    let api = TaskApi::open().await;
    let links = chain(&api, MAX_LEVELS + 1).await;
    api.create("t", json!({})).await;
    let last = links.last().unwrap().as_str();
    // A task without dependents cannot close a cycle, so no search is needed.
    api.create("free", json!({})).await;
    assert_eq!(api.change_dependencies("POST", "free", &[last]).await.0, 200);
    api.create("next", json!({"depends_on": ["t"]})).await;
    let before = api.stored("t").await;
    let (status, problem) = api.change_dependencies("POST", "t", &[last]).await;
    assert_eq!((status, &problem["code"]), (409, &json!("dependencies_too_large")), "{problem}");
    assert_eq!((&problem["max_levels"], &problem["max_tasks"]), (&json!(MAX_LEVELS), &json!(10_000)));
    assert!(problem["detail"].as_str().unwrap().contains(&format!("{MAX_LEVELS} levels")));
    assert_eq!(api.stored("t").await, before);
    // A chain of the maximum length is accepted.
    let (status, task) = api.change_dependencies("POST", "t", &[links[MAX_LEVELS - 1].as_str()]).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(true)), "{task}");
}

#[tokio::test]
async fn cycle_search_stops_at_completed_tasks() {
    let api = TaskApi::open().await;
    for (id, on) in [("a", vec![]), ("b", vec!["a"]), ("c", vec!["b"])] {
        api.create(id, json!({"depends_on": on})).await;
        api.complete(id).await;
    }
    api.create("d", json!({"depends_on": ["c"]})).await;
    api.create("t", json!({})).await;
    api.create("next", json!({"depends_on": ["t"]})).await;
    api.harness.aws.meter.start();
    assert_eq!(api.change_dependencies("POST", "t", &["d"]).await.0, 200);
    api.harness.aws.meter.stop();
    let calls = api.harness.aws.meter.take();
    let reads = calls.iter().filter(|call| call.operation == "BatchGetItem").count();
    // The new dependencies, then `d`, then `c`. `c` is completed, so `b` and `a` are not read.
    assert_eq!(reads, 3, "{calls:?}");
    check_counters(&api).await;
}
