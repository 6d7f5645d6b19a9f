//! The merge of all finished branches of a ticket, on a repository of this machine.

use super::TaskApi;
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::TicketId;
use kit::git::Repository;
use serde_json::{Value, json};

const TICKET: &str = "k-1";

/// A ticket with completed tasks, each of which has committed one file on its branch.
struct Setup {
    plane: TaskApi,
    repository: Repository,
}

impl Setup {
    async fn with_tasks(tasks: &[(&str, &str, &str)]) -> Self {
        let setup = Self { plane: TaskApi::open().await, repository: Repository::with_one_commit() };
        let ticket = json!({"org": "acme", "ticket_id": TICKET, "title": "Greet", "check_duplicates": false});
        assert_eq!(setup.send("/tickets", ticket).await.0, 201);
        for (id, file, content) in tasks {
            setup.complete(id, file, content).await;
        }
        setup
    }

    async fn complete(&self, id: &str, file: &str, content: &str) {
        let task = json!({
            "org": "acme", "ticket_id": TICKET, "task_id": id, "title": format!("Write {id}"), "task_type": "write",
            "repository": self.repository.path(),
        });
        assert_eq!(self.send("/tasks", task).await.0, 201);
        let sandbox = self.plane.start(id).await;
        let branch = self.plane.stored(id).await.branch.unwrap().name;
        self.repository.commit_on(&branch, file, content);
        self.plane.emit(&sandbox, "agent.completed", json!({"success": true})).await;
        self.plane.reconcile(&sandbox).await;
        assert_eq!(self.plane.stored(id).await.status.as_str(), "completed", "{id}");
    }

    async fn send(&self, path: &str, body: Value) -> (u64, Value) {
        self.plane.call(OPERATOR, "POST", path, Some(body)).await
    }

    async fn start(&self, body: Value) -> (u64, Value) {
        self.send(&format!("/tickets/{TICKET}/merge"), body).await
    }

    /// Runs the jobs of the merge, like a plane whose queue loses none, or all if `lost`.
    async fn step(&self) -> Value {
        let job = Job::ReconcileTicket { ticket_id: TicketId::parse(TICKET).unwrap() };
        self.plane.run_job(&job).await;
        self.plane.get(&format!("/tickets/{TICKET}")).await["merge"].clone()
    }

    async fn run(&self) -> Value {
        for _ in 0..40 {
            let merge = self.step().await;
            if merge["state"] == "ended" {
                return merge;
            }
            self.plane.harness.clock.advance_secs(20);
        }
        panic!("the merge does not end: {}", self.step().await);
    }

    fn files(&self) -> String {
        self.repository.git(&["ls-tree", "--name-only", "main"]).replace('\n', " ")
    }

    async fn ticket_events(&self) -> Vec<Value> {
        let page = self.plane.get(&format!("/tickets/{TICKET}/events?order=oldest&limit=500")).await;
        page["events"].as_array().unwrap().clone()
    }
}

fn states(merge: &Value) -> Vec<(&str, &str)> {
    let branches = merge["branches"].as_array().unwrap().iter();
    branches.map(|branch| (branch["task_id"].as_str().unwrap(), branch["state"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn branches_are_merged_with_the_fewest_conflicts_first() {
    let tasks = [("t-1", "greeting", "hello\n"), ("t-2", "greeting", "good day\n"), ("t-3", "other", "x\n")];
    let setup = Setup::with_tasks(&tasks).await;
    let (status, started) = setup.start(json!({})).await;
    assert_eq!((status, &started["merge"]["state"]), (200, &json!("running")), "{started}");
    let merge = setup.run().await;
    assert_eq!(states(&merge), [("t-3", "merged"), ("t-1", "merged"), ("t-2", "conflict")], "{merge:#}");
    assert_eq!(setup.files(), "README.md greeting other");
    assert_eq!(setup.repository.file_on("main", "greeting").as_deref(), Some("hello\n"));
    let events = setup.ticket_events().await;
    let conflict = events.iter().find(|event| event["event_type"] == "ticket.merge_conflict").unwrap();
    let file = &conflict["event_data"]["files"][0];
    assert_eq!(file["path"], "greeting");
    assert!(file["hunks"].as_str().unwrap().contains("hello\n=======\ngood day\n"), "{file}");
    assert!(setup.plane.event_types("t-2").await.contains(&"task.merge_conflict".to_owned()));
    assert_eq!(events.last().unwrap()["event_data"]["conflicts"], json!(["t-2"]));
}

#[tokio::test]
async fn conflict_becomes_a_task_on_the_same_branch_if_that_is_wanted() {
    let setup = Setup::with_tasks(&[("t-1", "greeting", "hello\n"), ("t-2", "greeting", "good day\n")]).await;
    setup.start(json!({"resolve_conflicts": true})).await;
    let mut merge = Value::Null;
    for _ in 0..6 {
        merge = setup.step().await;
        setup.plane.harness.clock.advance_secs(1);
    }
    assert_eq!(states(&merge), [("t-1", "merged"), ("t-2", "resolving")], "{merge:#}");
    let resolver = merge["branches"][1]["resolved_by"].as_str().unwrap().to_owned();
    let branch = setup.plane.stored("t-2").await.branch.unwrap().name;
    let sandbox = setup.plane.start(&resolver).await;
    assert_eq!(setup.plane.stored(&resolver).await.branch.unwrap().name, branch);
    // As the agent resolves it.
    setup.repository.git(&["checkout", "--quiet", &branch]);
    setup.repository.git(&["merge", "--quiet", "-X", "ours", "main"]);
    setup.repository.git(&["checkout", "--quiet", "main"]);
    setup.plane.emit(&sandbox, "agent.completed", json!({"success": true})).await;
    setup.plane.reconcile(&sandbox).await;
    let merge = setup.run().await;
    assert_eq!(states(&merge), [("t-1", "merged"), ("t-2", "merged")], "{merge:#}");
    assert_eq!(setup.repository.file_on("main", "greeting").as_deref(), Some("good day\n"));
    assert_eq!(setup.repository.branches(), ["main"]);
}

#[tokio::test]
async fn merge_that_was_interrupted_continues_without_a_second_merge() {
    let setup = Setup::with_tasks(&[("t-1", "one", "1\n"), ("t-2", "two", "2\n")]).await;
    setup.start(json!({"delete_branch": false})).await;
    // The plane stops after the merge of the first branch and before it is recorded.
    let before = setup.repository.git(&["rev-list", "--count", "main"]);
    setup.send("/tasks/t-1/merge", json!({"delete_branch": false})).await;
    let merge = setup.run().await;
    assert_eq!(states(&merge), [("t-1", "merged"), ("t-2", "merged")], "{merge:#}");
    let after = setup.repository.git(&["rev-list", "--count", "main"]);
    assert_eq!((before.as_str(), after.as_str()), ("1", "3"));
}

#[tokio::test]
async fn ticket_without_finished_branches_has_nothing_to_merge() {
    let setup = Setup::with_tasks(&[]).await;
    let (status, refused) = setup.start(json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("no_pull_request")), "{refused}");
    let (status, refused) = setup.start(json!({"method": "force"})).await;
    assert_eq!((status, &refused["field"]), (422, &json!("method")), "{refused}");
}
