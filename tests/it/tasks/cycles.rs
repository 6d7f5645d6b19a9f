//! No task comes to wait for itself, whoever else changes the graph at the same time.

use super::counting::recount;
use super::{Desk, acme, ask, task_id};
use crate::orchestration::chaos::world::{change, task};
use domain::TaskId;
use domain::graph::MAX_LEVELS;
use serde_json::{Value, json};
use store::commit::{Commit, Committed, Edge};

#[tokio::test]
async fn a_cycle_is_refused_and_named() {
    let desk = Desk::open().await;
    desk.create("a", json!({})).await;
    desk.create("b", json!({"depends_on": ["a"]})).await;
    desk.create("c", json!({"depends_on": ["b"]})).await;
    for (method, task, on, cycle) in [
        ("POST", "a", vec!["a"], vec!["a", "a"]),
        ("POST", "a", vec!["b"], vec!["a", "b", "a"]),
        ("POST", "a", vec!["c"], vec!["a", "c", "b", "a"]),
        ("PUT", "b", vec!["c"], vec!["b", "c", "b"]),
    ] {
        let before = desk.stored(task).await;
        let (status, problem) = desk.depend(method, task, &on).await;
        assert_eq!((status, &problem["code"]), (409, &json!("dependency_cycle")), "{problem}");
        assert_eq!(problem["cycle"], json!(cycle));
        assert!(problem["detail"].as_str().unwrap().contains(&cycle.join(" → ")), "{problem}");
        assert_eq!(desk.stored(task).await, before);
    }
    recount(&desk).await;
}

/// Two pairs, each of which is in order. Neither request touches a task that the other touches, so nothing but the state
/// of the whole graph tells them of each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_requests_that_would_close_a_cycle_together_one_wins() {
    let desk = Desk::open().await;
    for round in 0..20 {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("{name}-{round}"));
        for (id, on) in [(&a, vec![]), (&b, vec![&a]), (&c, vec![]), (&d, vec![&c])] {
            desk.create(id, json!({"depends_on": on})).await;
        }
        let depend = |id: &str, on: &str| {
            let (plane, token) = (desk.plane.clone(), desk.member.clone());
            let (path, body) = (format!("/tasks/{id}/dependencies"), json!({"depends_on": [on]}));
            tokio::spawn(async move { ask(&plane, &token, "POST", &path, Some(body)).await })
        };
        let (one, other) = tokio::join!(depend(&a, &d), depend(&c, &b));
        let (one, other) = (one.unwrap(), other.unwrap());
        let mut statuses = [one.0, other.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{one:?} {other:?}");
        let refused: &Value = if one.0 == 409 { &one.1 } else { &other.1 };
        assert_eq!(refused["code"], "dependency_cycle");
        assert_eq!(refused["cycle"].as_array().unwrap().len(), 5, "all four, and the first again: {refused}");
    }
    recount(&desk).await;
}

/// Writes a chain: the first waits for nobody, each other for the one before it.
async fn chain(desk: &Desk, length: usize) -> Vec<TaskId> {
    let now = app::Clock::now(desk.stage.clock.as_ref());
    let ids: Vec<TaskId> = (0..length).map(|n| task_id(&format!("link-{n:04}"))).collect();
    for first in (0..length).step_by(20) {
        let mut commit = Commit::new(now);
        for n in first..length.min(first + 20) {
            let depends_on: Vec<&TaskId> = n.checked_sub(1).map(|before| &ids[before]).into_iter().collect();
            let fields = json!({
                "depends_on": depends_on, "unmet": depends_on.len(), "dependents": usize::from(n + 1 < length),
            });
            for before in depends_on {
                commit.edges.push(Edge::Add { task: before.clone(), waits: ids[n].clone() });
            }
            let task = task(ids[n].as_str(), &acme(), now, fields);
            commit.tasks.push(change(desk.stage.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        let written = desk.stage.aws.store.commit(commit).await.unwrap();
        assert!(matches!(written, Committed::Done(_)), "{written:?}");
    }
    ids
}

#[tokio::test]
async fn the_search_for_a_cycle_is_bounded_and_says_so() {
    let desk = Desk::open().await;
    let links = chain(&desk, MAX_LEVELS + 1).await;
    desk.create("t", json!({})).await;
    let last = links.last().unwrap().as_str();
    // Nobody waits for it, and so nobody has to search, however long the chain is.
    desk.create("free", json!({})).await;
    assert_eq!(desk.depend("POST", "free", &[last]).await.0, 200);
    desk.create("next", json!({"depends_on": ["t"]})).await;
    let before = desk.stored("t").await;
    let (status, problem) = desk.depend("POST", "t", &[last]).await;
    assert_eq!((status, &problem["code"]), (409, &json!("dependencies_too_large")), "{problem}");
    assert_eq!((&problem["deepest"], &problem["most"]), (&json!(MAX_LEVELS), &json!(10_000)));
    assert!(
        problem["detail"].as_str().unwrap().contains(&format!("more than {MAX_LEVELS} one behind the other"))
    );
    assert_eq!(desk.stored("t").await, before);
    // One less is searched to its end.
    let (status, task) = desk.depend("POST", "t", &[links[MAX_LEVELS - 1].as_str()]).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(true)), "{task}");
}

#[tokio::test]
async fn the_search_for_a_cycle_ends_at_what_is_completed() {
    let desk = Desk::open().await;
    for (id, on) in [("a", vec![]), ("b", vec!["a"]), ("c", vec!["b"])] {
        desk.create(id, json!({"depends_on": on})).await;
        desk.complete(id).await;
    }
    desk.create("d", json!({"depends_on": ["c"]})).await;
    desk.create("t", json!({})).await;
    desk.create("next", json!({"depends_on": ["t"]})).await;
    desk.stage.aws.meter.start();
    assert_eq!(desk.depend("POST", "t", &["d"]).await.0, 200);
    desk.stage.aws.meter.stop();
    let calls = desk.stage.aws.meter.take();
    let looks = calls.iter().filter(|call| call.operation == "BatchGetItem").count();
    // What is to be waited for, then `d`, then `c`; `a` and `b` stand behind that and are not looked at.
    assert_eq!(looks, 3, "{calls:?}");
    recount(&desk).await;
}
