//! The branches of tickets under the names of OmoiOS, on a repository of this machine.

use super::TaskApi;
use crate::support::OPERATOR;
use kit::git::Repository;
use serde_json::{Value, json};

/// A plane with a task in a repository. Only operators can name a directory.
struct Setup {
    plane: TaskApi,
    repository: Repository,
}

impl Setup {
    async fn new() -> Self {
        let setup = Self { plane: TaskApi::open().await, repository: Repository::with_one_commit() };
        let ticket = json!({"org": "acme", "ticket_id": "k-1", "title": "Greet", "check_duplicates": false});
        assert_eq!(setup.send("/tickets", ticket).await.0, 201);
        setup.add_task("t-1").await;
        setup
    }

    async fn add_task(&self, id: &str) {
        let task = json!({
            "org": "acme", "ticket_id": "k-1", "task_id": id, "title": "Fix the greeting",
            "repository": self.repository.path(), "task_type": "fix",
        });
        let (status, created) = self.send("/tasks", task).await;
        assert_eq!(status, 201, "{created}");
    }

    async fn send(&self, path: &str, body: Value) -> (u64, Value) {
        self.plane.call(OPERATOR, "POST", path, Some(body)).await
    }

    async fn workflow(&self, verb: &str, body: Value) -> Value {
        let (status, answer) = self.send(&format!("/branch-workflow/{verb}"), body).await;
        assert_eq!(status, 200, "{verb}: {answer}");
        answer
    }
}

fn of_task(id: &str) -> Value {
    json!({"ticket_id": "k-1", "task_id": id})
}

#[tokio::test]
async fn started_branch_is_that_of_the_first_attempt() {
    let setup = Setup::new().await;
    let started = setup.workflow("start", of_task("t-1")).await;
    let branch = started["branch_name"].as_str().unwrap();
    assert_eq!(started["sha"], setup.repository.git(&["rev-parse", branch]));
    assert_eq!(setup.workflow("start", of_task("t-1")).await, started);
    setup.plane.assign("t-1").await;
    assert_eq!(setup.plane.stored("t-1").await.branch.unwrap().name, branch);
    assert_eq!(setup.repository.branches(), [branch, "main"]);
    let created = setup.plane.event_types("t-1").await;
    assert_eq!(created.iter().filter(|name| *name == "task.branch_created").count(), 1, "{created:?}");
}

#[tokio::test]
async fn work_is_started_finished_and_merged() {
    let setup = Setup::new().await;
    let branch = setup.workflow("start", of_task("t-1")).await["branch_name"].as_str().unwrap().to_owned();
    let empty = setup.workflow("finish", of_task("t-1")).await;
    assert_eq!(json!([empty["success"], empty["pr_number"]]), json!([false, null]), "{empty}");
    setup.repository.commit_on(&branch, "greeting.txt", "hello\n");
    let query = format!("/branch-workflow/status?task_id=t-1&branch_name={branch}");
    let status = setup.plane.get(&query).await;
    assert_eq!(
        json!([status["ahead_by"], status["behind_by"], status["has_conflicts"]]),
        json!([1, 0, false])
    );
    let finished = setup.workflow("finish", of_task("t-1")).await;
    assert_eq!(json!([finished["success"], finished["pr_number"]]), json!([true, 1]), "{finished}");
    let by_number = json!({"task_id": "t-1", "pr_number": 1});
    let merged = setup.workflow("merge", by_number).await;
    assert_eq!(merged["merge_sha"], setup.repository.git(&["rev-parse", "main"]), "{merged}");
    assert_eq!(setup.repository.file_on("main", "greeting.txt").as_deref(), Some("hello\n"));
    assert_eq!(setup.repository.branches(), ["main"]);
}

#[tokio::test]
async fn conflict_is_the_outcome_of_a_merge() {
    let setup = Setup::new().await;
    let branch = setup.workflow("start", of_task("t-1")).await["branch_name"].as_str().unwrap().to_owned();
    setup.repository.commit_on(&branch, "greeting.txt", "hello\n");
    setup.repository.write("greeting.txt", "good day\n");
    setup.repository.commit_all("Say good day");
    setup.workflow("finish", of_task("t-1")).await;
    let before = setup.repository.git(&["rev-parse", "main"]);
    let refused = setup.workflow("merge", of_task("t-1")).await;
    assert_eq!(json!([refused["success"], refused["has_conflicts"]]), json!([false, true]), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("greeting.txt"), "{refused}");
    assert_eq!(setup.repository.git(&["rev-parse", "main"]), before);
}

#[tokio::test]
async fn selection_must_be_unambiguous_and_true() {
    let setup = Setup::new().await;
    setup.add_task("t-2").await;
    for (body, field) in [
        (json!({"ticket_id": "k-1"}), "task_id"),
        (json!({"ticket_id": "k-1", "task_id": "t-1", "branch_name": "fix/other"}), "branch_name"),
        (json!({"task_id": "t-1", "pr_number": 7}), "pr_number"),
        (json!({"task_id": "t-1", "repo_owner": "acme", "repo_name": "shop"}), "repo_name"),
    ] {
        let (status, refused) = setup.send("/branch-workflow/start", body.clone()).await;
        assert_eq!((status, refused["field"].as_str()), (422, Some(field)), "{body}: {refused}");
    }
    assert_eq!(setup.repository.branches(), ["main"]);
}
