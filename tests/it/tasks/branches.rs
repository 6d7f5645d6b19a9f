//! Branches and pull requests of tasks at GitHub, with faults of GitHub and of this process.

use super::{TaskApi, task_id};
use app::orchestration::WorkerVariables;
use domain::SandboxId;
use domain::attempt::Stage;
use domain::task::Status;
use kit::git;
use kit::github::{Faults, GitHub, Options, Token};
use kit::seed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

pub(super) const TOKEN: &str = "planted-token";
pub(super) const REPOSITORY: &str = "acme/shop";

pub(super) const SECRET: &str = "planted-secret-of-webhooks";

/// A plane, and GitHub with one repository that has one commit.
pub(super) struct Setup {
    pub(super) plane: TaskApi,
    pub(super) github: GitHub,
    pub(super) directory: PathBuf,
}

impl Setup {
    pub(super) async fn new(token: Token) -> Self {
        let github = GitHub::start(Options::default()).await;
        github.allow(token);
        let directory = github.create_repository(REPOSITORY);
        push(&directory, "main", "README.md", "begin\n");
        let variables = [
            ("GITHUB_TOKEN", TOKEN.to_owned()),
            ("GITHUB_HOST", github.host()),
            ("GITHUB_WEBHOOK_SECRET", SECRET.to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let plane = TaskApi::open_with(|settings| {
            settings.orchestration.worker_variables = WorkerVariables::shared(variables);
        });
        Self { plane: plane.await, github, directory }
    }

    pub(super) async fn create(&self, id: &str) {
        let repository = self.github.repository_url(REPOSITORY);
        let fields = json!({"title": "Fix the greeting", "repository": repository, "max_retries": 10});
        self.plane.create(id, fields).await;
    }

    fn branches(&self) -> Vec<String> {
        let list = git::git(&self.directory, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        list.lines().map(str::to_owned).collect()
    }

    /// Reconciles the current attempt of a task until it has this status or a final one. Each run may be dropped at any
    /// point, as by a crash.
    pub(super) async fn advance(&self, id: &str, wanted: Status, seed: u64) {
        for round in 0..400 {
            let task = self.plane.stored(id).await;
            if task.status == wanted || task.status.is_final() {
                return;
            }
            let limit = Duration::from_millis(5 + (seed * 7_919 + round * 104_729) % 150);
            match task.sandbox.filter(|_| task.status.is_active()) {
                Some(sandbox) => {
                    drop(timeout(limit, self.reconcile(&sandbox)).await);
                    self.beat(&sandbox).await;
                }
                None => drop(timeout(limit, self.dispatch(id)).await),
            }
            self.plane.harness.clock.advance_secs(61);
        }
        panic!("seed {seed}: {id} is stuck: {:?}", self.plane.stored(id).await);
    }

    /// The heartbeat of a worker, once it was started.
    async fn beat(&self, sandbox: &SandboxId) {
        let stored = self.plane.harness.aws.store.sandbox(sandbox).await.unwrap().unwrap();
        let started = stored.activity.provisioning.is_some_and(|found| found.stage == Stage::Started);
        if started && stored.activity.outcome.is_none() {
            self.plane.emit(sandbox, "agent.heartbeat", json!({"status": "working"})).await;
        }
    }

    async fn reconcile(&self, sandbox: &SandboxId) {
        self.plane.reconcile(sandbox).await;
    }

    /// Retries the task when its backoff has passed, and claims it.
    pub(super) async fn dispatch(&self, id: &str) {
        let job = contract::jobs::Job::ReconcileTask { task_id: task_id(id) };
        self.plane.run_job(&job).await;
        self.plane.run_job(&contract::jobs::Job::Dispatch { org: super::acme() }).await;
    }
}

/// Commits a file on a branch of a bare repository.
pub(super) fn push(directory: &Path, branch: &str, file: &str, content: &str) -> String {
    let copy = TempDir::new().unwrap();
    git::git(copy.path(), &["clone", "--quiet", directory.to_str().unwrap(), "copy"]);
    let copy = copy.path().join("copy");
    if !git::git(&copy, &["branch", "--all"]).is_empty() {
        git::git(&copy, &["checkout", "--quiet", branch]);
    } else {
        git::git(&copy, &["checkout", "--quiet", "-b", branch]);
    }
    std::fs::write(copy.join(file), content).unwrap();
    git::git(&copy, &["add", "--all"]);
    git::git(&copy, &["commit", "--quiet", "--message", &format!("Change {file}")]);
    git::git(&copy, &["push", "--quiet", "origin", &format!("HEAD:{branch}")]);
    git::git(&copy, &["rev-parse", "HEAD"])
}

/// Number of seeds, unless a developer chooses another one.
const SEEDS: u64 = 12;

#[tokio::test]
async fn random_faults_leave_one_branch_and_one_pull_request_per_task() {
    seed::each(0..seed::count(SEEDS), async |seed| {
        let setup = Setup::new(Token::new(TOKEN)).await;
        setup.github.set_faults(Faults::none().at_random(seed, 15));
        let mut commits = Vec::new();
        for id in ["t-1", "t-2"] {
            setup.create(id).await;
            setup.advance(id, Status::Running, seed).await;
            let provisioned = setup.plane.stored(id).await;
            let (sandbox, branch) = (provisioned.sandbox.unwrap(), provisioned.branch.unwrap());
            commits.push((id, branch.name.clone(), push(&setup.directory, &branch.name, "greeting.txt", id)));
            setup.plane.emit(&sandbox, "agent.completed", json!({"success": true})).await;
            setup.advance(id, Status::Completed, seed).await;
        }
        setup.github.set_faults(Faults::none());
        for (id, branch, commit) in &commits {
            let (status, shown) = setup.plane.post(&format!("/tasks/{id}/pull-request"), Value::Null).await;
            assert_eq!(status, 200, "seed {seed}: {shown}");
            assert_eq!((&shown["branch"], &shown["commit"]), (&json!(branch), &json!(commit)), "seed {seed}");
        }
        let names: Vec<&str> = commits.iter().map(|(_, branch, _)| branch.as_str()).collect();
        assert_eq!(setup.branches(), [names.as_slice(), &["main"]].concat(), "seed {seed}");
        let mut proposed: Vec<String> = setup.github.pull_requests(REPOSITORY).iter().map(head).collect();
        proposed.sort();
        assert_eq!(proposed, names, "seed {seed}");
    })
    .await;
}

fn head(pull_request: &Value) -> String {
    pull_request["head"]["ref"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn opening_and_merging_a_pull_request_name_their_principal() {
    let setup = Setup::new(Token::new(TOKEN)).await;
    setup.create("t-1").await;
    // On the heap: in a debug build these futures are too large for the stack of a test thread.
    Box::pin(setup.advance("t-1", Status::Running, 1)).await;
    let task = setup.plane.stored("t-1").await;
    let (sandbox, branch) = (task.sandbox.unwrap(), task.branch.unwrap().name);
    push(&setup.directory, &branch, "greeting.txt", "hello\n");
    setup.plane.emit(&sandbox, "agent.completed", json!({"success": true})).await;
    Box::pin(setup.advance("t-1", Status::Completed, 1)).await;
    // A further commit, so that the plane records what the member requests.
    push(&setup.directory, &branch, "greeting.txt", "hello world\n");
    for (action, body) in [("pull-request", Value::Null), ("merge", json!({}))] {
        let path = format!("/tasks/t-1/{action}");
        let (status, answer) = Box::pin(setup.plane.post(&path, body)).await;
        assert_eq!(status, 200, "{action}: {answer}");
    }
    let page = setup.plane.get("/tasks/t-1/events?order=oldest&limit=500").await;
    let events = page["events"].as_array().unwrap().iter();
    let callers: Vec<(&Value, &Value)> = events
        .map(|event| (&event["event_type"], &event["event_data"]["by"]))
        .filter(|(event_type, _)| *event_type == "task.pull_request_opened" || *event_type == "task.merged")
        .collect();
    let (opened, merged) = (json!("task.pull_request_opened"), json!("task.merged"));
    let member = json!({"kind": "user", "id": "u-1"});
    assert_eq!(callers, [(&opened, &Value::Null), (&opened, &member), (&merged, &member)]);
}

#[tokio::test]
async fn token_that_may_not_push_is_found_before_a_sandbox_is_created() {
    let setup = Setup::new(Token::read_only(TOKEN)).await;
    setup.create("t-1").await;
    let sandbox = setup.plane.assign("t-1").await;
    let task = setup.plane.stored("t-1").await;
    assert_eq!(task.status, Status::Failed);
    let error = task.error.unwrap();
    assert!(error.contains("permission to write") && !error.contains(TOKEN), "{error}");
    let stored = setup.plane.harness.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert_eq!(stored.activity.provisioning.unwrap().provider_id, None);
    assert_eq!(setup.branches(), ["main"]);
}

#[tokio::test]
async fn taken_names_are_followed_by_the_next_number() {
    let setup = Setup::new(Token::new(TOKEN)).await;
    git::git(&setup.directory, &["branch", "fix/t-1-fix-the-greeting", "main"]);
    setup.create("t-1").await;
    setup.plane.assign("t-1").await;
    let branch = setup.plane.stored("t-1").await.branch.unwrap();
    assert_eq!(branch.name, "fix/t-1-fix-the-greeting-2");
    assert!(setup.plane.event_types("t-1").await.contains(&"task.branch_created".to_owned()));
}

#[tokio::test]
async fn only_the_worker_of_the_latest_attempt_gets_git_access() {
    let setup = Setup::new(Token::new(TOKEN)).await;
    setup.create("t-1").await;
    let first = setup.plane.start("t-1").await;
    let access = |token: String, sandbox: SandboxId| {
        let plane = &setup.plane;
        async move { plane.call(&token, "POST", &format!("/sandboxes/{sandbox}/git-access"), None).await }
    };
    let old = setup.plane.worker_token(&first).await;
    let (status, given) = access(old.clone(), first.clone()).await;
    assert_eq!((status, &given["token"]), (200, &json!(TOKEN)), "{given}");
    assert_eq!(given["url"], setup.github.repository_url(REPOSITORY).as_str());
    let failed = json!({"error": "connection refused"});
    setup.plane.emit(&first, "agent.failed", failed).await;
    setup.reconcile(&first).await;
    setup.advance("t-1", Status::Running, 1).await;
    let second = setup.plane.stored("t-1").await.sandbox.unwrap();
    assert_ne!(first, second);
    let (status, refused) = access(old, first).await;
    assert!(status == 401 || refused["code"] == "task_mismatch", "{status} {refused}");
    let new = setup.plane.worker_token(&second).await;
    assert_eq!(access(new, second).await.0, 200);
}
