//! A task is completed, and those that wait for it are told: as many as there is time for, and none twice.

use super::counting::recount;
use super::{Desk, acme, ask, task_id};
use crate::orchestration::chaos::world::{change, task};
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::Task;
use serde_json::json;
use store::commit::{Change, Commit, Committed, Edge};

/// Has so many wait for a task. Far faster than to ask for each.
async fn followers(desk: &Desk, id: &str, count: usize) {
    let (store, ahead) = (&desk.stage.aws.store, desk.stored(id).await);
    let now = app::Clock::now(desk.stage.clock.as_ref());
    for first in (0..count).step_by(20) {
        let mut commit = Commit::new(now);
        for n in first..count.min(first + 20) {
            let fields = json!({"depends_on": [id], "unmet": 1});
            let task = task(&format!("{id}-{n:05}"), &acme(), now, fields);
            commit.edges.push(Edge::Add { task: ahead.id.clone(), waits: task.id.clone() });
            commit.tasks.push(change(desk.stage.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
    }
    let after = Task { dependents: count as u32, version: ahead.version + 1, ..ahead.clone() };
    let mut commit = Commit::new(now);
    commit.tasks.push(Change { before: Some(&ahead), after, events: Vec::new() });
    assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
}

/// How many have not been told.
async fn untold(desk: &Desk, id: &str) -> usize {
    desk.stage.aws.store.dependants(&task_id(id), 10_000).await.unwrap().len()
}

#[tokio::test]
async fn a_report_tells_a_hundred_and_a_job_the_rest() {
    let mut desk = Desk::open().await;
    desk.create("t", json!({})).await;
    followers(&desk, "t", 130).await;
    let done = desk.complete("t").await;
    assert_eq!(
        (&done["new_status"], done["unblocked_tasks"].as_array().unwrap().len()),
        (&json!("completed"), 50)
    );
    assert_eq!(untold(&desk, "t").await, 30);
    let wanted = json!({"job": "tend_task", "task_id": "t"});
    assert!(desk.jobs("tend_task").await.contains(&wanted), "nobody was asked to go on");
    desk.work(&Job::decode(&wanted.to_string()).unwrap()).await;
    assert_eq!(desk.jobs("tend_task").await, Vec::<serde_json::Value>::new(), "nothing is left to be told");
    assert_eq!((untold(&desk, "t").await, desk.stored("t").await.dependents), (0, 0));
    assert_eq!(desk.queue().await.len(), 130);
    recount(&desk).await;
}

#[tokio::test]
async fn a_judgement_tells_a_hundred_and_a_repeat_more() {
    let mut desk = Desk::open().await;
    desk.create("t", json!({"validation": true})).await;
    followers(&desk, "t", 130).await;
    desk.complete("t").await;
    assert_eq!(untold(&desk, "t").await, 130, "nobody has looked at it yet");
    let path = format!("/sandboxes/{}/validation-result", desk.stored("t").await.sandbox.unwrap());
    let judged = json!({"task_id": "t", "passed": true, "feedback": "Good."});
    let (status, first) = desk.post(&path, judged.clone()).await;
    assert_eq!((status, &first["new_task_status"]), (200, &json!("completed")), "{first}");
    assert_eq!(untold(&desk, "t").await, 30);
    assert!(desk.jobs("tend_task").await.contains(&json!({"job": "tend_task", "task_id": "t"})));
    assert_eq!(desk.post(&path, judged).await, (200, first));
    assert_eq!(untold(&desk, "t").await, 0);
    recount(&desk).await;
}

#[tokio::test]
async fn a_job_tells_a_thousand_and_asks_for_the_next() {
    let mut desk = Desk::open().await;
    desk.create("t", json!({})).await;
    followers(&desk, "t", 1_130).await;
    desk.complete("t").await;
    desk.stage.jobs().await;
    let wanted = json!({"job": "tend_task", "task_id": "t"});
    let job = Job::decode(&wanted.to_string()).unwrap();
    desk.work(&job).await;
    assert_eq!(untold(&desk, "t").await, 30);
    assert_eq!(desk.jobs("tend_task").await, [wanted]);
    desk.work(&job).await;
    assert_eq!(untold(&desk, "t").await, 0);
    assert!(desk.jobs("tend_task").await.is_empty());
    assert_eq!(desk.stored("t").await.dependents, 0);
}

/// Between the end of a task and its telling somebody changes what another waits for.
#[tokio::test]
async fn a_dependency_that_is_completed_and_not_told_yet_can_be_removed() {
    let desk = Desk::open().await;
    desk.create("a", json!({})).await;
    desk.create("other", json!({})).await;
    for id in ["removes", "replaces", "adds", "stays"] {
        desk.create(id, json!({"depends_on": ["a"]})).await;
    }
    let sandbox = desk.start("a").await;
    desk.tell(&sandbox, "agent.completed", json!({"success": true})).await;
    desk.tend(&sandbox).await;
    assert_eq!((desk.stored("a").await.status.as_str(), untold(&desk, "a").await), ("completed", 4));
    let remove = "/tasks/removes/dependencies/a";
    let (status, task) = desk.ask(&desk.member, "DELETE", remove, None).await;
    assert_eq!((status, &task["blocked"]), (200, &json!(false)), "{task}");
    assert_eq!(desk.depend("PUT", "replaces", &["other"]).await.1["blocked"], true);
    assert_eq!(desk.depend("POST", "adds", &["other"]).await.1["blocked"], true);
    // To wait for what is completed is not to wait.
    desk.create("late", json!({})).await;
    assert_eq!(desk.depend("POST", "late", &["a"]).await.1["blocked"], false);
    recount(&desk).await;
    for _ in 0..2 {
        desk.work(&Job::ReconcileTask { task_id: task_id("a") }).await;
    }
    for (id, unmet) in [("removes", 0), ("replaces", 1), ("adds", 1), ("stays", 0), ("late", 0)] {
        assert_eq!(desk.stored(id).await.unmet, unmet, "{id}");
    }
    recount(&desk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_that_completes_meanwhile_is_counted_right() {
    let desk = Desk::open().await;
    for round in 0..20 {
        let names = ["a", "adds", "removes"].map(|name| format!("{name}-{round}"));
        let [ahead, adds, removes] = &names;
        desk.create(ahead, json!({})).await;
        let sandbox = desk.assign(ahead).await;
        desk.create(adds, json!({})).await;
        desk.create(removes, json!({"depends_on": [ahead]})).await;
        let spawn = |method: &'static str, path: String, body: Option<serde_json::Value>| {
            let plane = desk.plane.clone();
            tokio::spawn(async move { ask(&plane, OPERATOR, method, &path, body).await })
        };
        let (done, added, removed) = tokio::join!(
            spawn("POST", format!("/sandboxes/{sandbox}/task-complete"), Some(json!({"task_id": ahead}))),
            spawn("POST", format!("/tasks/{adds}/dependencies"), Some(json!({"depends_on": [ahead]}))),
            spawn("DELETE", format!("/tasks/{removes}/dependencies/{ahead}"), None),
        );
        for answer in [done, added, removed] {
            let (status, answer) = answer.unwrap();
            assert_eq!(status, 200, "{answer}");
        }
        // Whoever completed it tells all, also those who came while it was told.
        desk.work(&Job::ReconcileTask { task_id: task_id(ahead) }).await;
        let queue = desk.queue().await;
        assert!(queue.contains(adds) && queue.contains(removes), "{round}: {queue:?}");
    }
    recount(&desk).await;
}
