//! Branches and pull requests of tasks, while the plane, the workers and GitHub fail at random at any step.
//!
//! Workers are real processes with real agents and git, and are killed. The plane is in this process: in a crash its
//! requests and jobs are dropped wherever they are, and one with empty caches follows. A seed determines the choices of this
//! test, but not the timing of processes.

mod machines;
mod server;

use super::branches::{REPOSITORY, TOKEN, push};
use super::{TaskApi, task_id};
use crate::support::OPERATOR;
use app::orchestration::WorkerVariables;
use domain::task::Status;
use kit::git::git;
use kit::github::{Faults, GitHub, Options, Token};
use kit::seed;
use machines::Machines;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use server::Server;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::page::ListScope;
use tokio::time::{sleep, timeout};

/// Number of seeds, unless a developer chooses another one.
const SEEDS: u64 = 3;
const TASKS: [&str; 2] = ["t-1", "t-2"];
/// Fails if the work takes longer.
const MAX_ROUNDS: u32 = 6_000;
/// Afterwards nothing fails any more, so that the work ends.
const ROUNDS_WITH_FAULTS: u32 = 500;
const ROUND: Duration = Duration::from_millis(20);
/// Fewer than a task has attempts.
const MAX_DEATHS: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_crashes_lose_no_commit_and_write_one_branch_and_pull_request_per_task() {
    seed::each(0..seed::count(SEEDS), async |seed| {
        let mut chaos = Chaos::start(seed).await;
        chaos.run().await;
        chaos.check().await;
    })
    .await;
}

struct Chaos {
    api: TaskApi,
    github: GitHub,
    /// The repository at GitHub.
    directory: PathBuf,
    machines: Arc<Machines>,
    server: Server,
    random: StdRng,
    deaths: u32,
}

impl Chaos {
    async fn start(seed: u64) -> Self {
        let github = GitHub::start(Options::default()).await;
        github.allow(Token::new(TOKEN));
        let directory = github.create_repository(REPOSITORY);
        push(&directory, "main", "README.md", "begin\n");
        let server = Server::start(seed).await;
        let machines = Arc::new(Machines::new());
        let variables = [("GITHUB_TOKEN", TOKEN.to_owned()), ("GITHUB_HOST", github.host())];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let api = TaskApi::open_at(machines.clone(), |settings| {
            settings.orchestration.worker_variables = WorkerVariables::shared(variables);
            settings.orchestration.callback_url = server.url.clone();
        });
        let api = api.await;
        let random = StdRng::seed_from_u64(seed);
        let chaos = Self { api, github, directory, machines, server, random, deaths: 0 };
        let agent = chaos.machines.write_script(&script());
        for id in TASKS {
            let repository = chaos.github.repository_url(REPOSITORY);
            let fields = json!({"title": "Fix the greeting", "repository": repository, "max_retries": 10, "agent": agent});
            chaos.api.create(id, fields).await;
        }
        chaos.github.set_faults(Faults::none().at_random(seed, 15));
        chaos
    }

    /// Runs until both tasks are completed and their sandboxes are gone.
    async fn run(&mut self) {
        for round in 0..MAX_ROUNDS {
            let mut are_completed = true;
            for id in TASKS {
                let status = self.api.stored(id).await.status;
                are_completed &= status == Status::Completed;
                // As a person does after GitHub was away for so long that the plane gave up.
                if status == Status::Failed {
                    let (status, answer) = self.api.post(&format!("/tasks/{id}/retry"), json!({})).await;
                    assert_eq!(status, 200, "{answer}");
                }
            }
            if are_completed && self.machines.is_empty() {
                return;
            }
            if round < ROUNDS_WITH_FAULTS {
                self.fail_at_random();
            } else {
                self.server.stop_crashing();
                self.github.set_faults(Faults::none());
            }
            // It may stay down for some rounds.
            if self.server.is_down() && (round >= ROUNDS_WITH_FAULTS || self.one_in(4)) {
                self.api.plane = self.api.new_process();
                self.server.serve(self.api.plane.clone());
            }
            if !self.server.is_down() {
                self.work(round < ROUNDS_WITH_FAULTS).await;
            }
            // While a worker runs, its time is that of the machine.
            match self.machines.has_running_workers() {
                true => sleep(ROUND).await,
                false => self.api.harness.clock.advance_secs(5),
            }
        }
        panic!("the tasks are not completed: {}", self.describe().await);
    }

    /// Whatever a plane does by itself: its schedules and its jobs.
    async fn work(&mut self, may_crash: bool) {
        let plane = self.api.plane.clone();
        let limit = self.limit(may_crash);
        let _may_crash = timeout(limit, app::reconcile::sweep::run(plane.orchestration().unwrap())).await;
        for job in self.api.harness.take_jobs().await {
            let limit = self.limit(may_crash);
            let _may_crash =
                timeout(limit, Box::pin(edge::jobs::run(&plane, "job-1", &job.to_string()))).await;
        }
        let (base, providers) = (plane.orchestration().unwrap(), plane.providers().unwrap());
        let deps = app::reconcile::sweep_providers::Deps { base, providers };
        let limit = self.limit(may_crash);
        let _may_crash = timeout(limit, app::reconcile::sweep_providers::run(deps)).await;
    }

    /// How long something may take until it is dropped, as in a crash.
    fn limit(&mut self, may_crash: bool) -> Duration {
        match may_crash && self.one_in(5) {
            true => Duration::from_millis(self.random.random_range(1..300)),
            false => Duration::from_secs(60),
        }
    }

    fn fail_at_random(&mut self) {
        if self.one_in(60) {
            self.server.crash();
        }
        if self.deaths < MAX_DEATHS && self.one_in(50) && self.machines.kill_one(&mut self.random) {
            self.deaths += 1;
        }
        if self.one_in(40) {
            let (seed, percent) = (self.random.random(), [0, 15, 40, 100][self.random.random_range(0..4)]);
            self.github.set_faults(Faults::none().at_random(seed, percent));
        }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_range(0..count) == 0
    }

    async fn check(&self) {
        self.github.set_faults(Faults::none());
        let mut branches = Vec::new();
        for id in TASKS {
            let task = self.api.stored(id).await;
            assert_eq!(task.status, Status::Completed, "{}", self.describe().await);
            let branch = task.branch.unwrap().name;
            self.check_commits(id, &branch).await;
            branches.push(branch);
        }
        let references = self.git(&["for-each-ref", "--format=%(refname:short)"]);
        let written: Vec<&str> = references.lines().collect();
        assert_eq!(written, [branches[0].as_str(), &branches[1], "main"], "no other branch is written");
        assert_eq!(self.git(&["log", "--format=%s", "main"]), "Change README.md");
        let mut proposed: Vec<String> = self.github.pull_requests(REPOSITORY).iter().map(head).collect();
        proposed.sort();
        assert_eq!(proposed, branches, "one pull request per task");
    }

    /// Whatever a worker has reported is on the branch of the task, and the result of the task is true.
    async fn check_commits(&self, id: &str, branch: &str) {
        let commits = self.git(&["rev-list", branch]);
        let on_branch: BTreeSet<&str> = commits.lines().collect();
        let sandboxes = self.api.harness.aws.store.sandboxes_of(&ListScope::All, None, 100).await.unwrap();
        let of_task = sandboxes.items.into_iter().filter(|sandbox| {
            sandbox.assignment.as_ref().is_some_and(|assignment| assignment.task == task_id(id))
        });
        for sandbox in of_task {
            let log = self.log(sandbox.id.as_str()).await;
            let pushed = log.iter().filter(|event| event["event_type"] == "workspace.pushed");
            for data in pushed.map(|event| &event["event_data"]) {
                assert!(on_branch.contains(data["commit"].as_str().unwrap()), "{id}: {data} is lost");
                assert_eq!(data["forced"], false, "{id}: {data}");
            }
            let is_reported = |event: &Value| event["event_type"] == "agent.completed";
            if log.iter().any(is_reported) {
                let made = made(&log);
                assert!(!made.is_empty(), "{id}: {log:#?}");
                for commit in made {
                    assert!(on_branch.contains(commit.as_str()), "{id}: {commit} is lost: {log:#?}");
                }
            }
        }
        let head = self.git(&["rev-parse", branch]);
        let task = self.api.get(&format!("/tasks/{id}")).await;
        let result = &task["result"];
        let pull_request = &task["branch"]["pull_request"];
        assert_eq!(
            json!([result["branch_name"], result["commit"], result["code_pushed"], result["pr_number"]]),
            json!([branch, head, true, pull_request["number"]]),
            "{task}"
        );
        for file in ["one.txt", "two.txt", "notes.txt"] {
            assert!(!self.git(&["show", &format!("{branch}:{file}")]).is_empty(), "{id}: {file}");
        }
    }

    async fn log(&self, sandbox: &str) -> Vec<Value> {
        let path = format!("/sandboxes/{sandbox}/events?limit=500&order=oldest");
        let (status, page) = self.api.call(OPERATOR, "GET", &path, None).await;
        assert_eq!((status, &page["has_more"]), (200, &json!(false)), "{page}");
        page["events"].as_array().unwrap().clone()
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.directory, arguments)
    }

    /// Both tasks and their events, and what the workers have logged.
    async fn describe(&self) -> String {
        let mut text = String::new();
        for id in TASKS {
            let task = self.api.stored(id).await;
            let types = self.api.event_types(id).await;
            text.push_str(&format!("{id} is {:?}: {:?} {types:?}\n", task.status, task.error));
            if let Some(sandbox) = task.sandbox {
                text.push_str(&format!("{:#?}\n", self.log(sandbox.as_str()).await));
            }
        }
        text + &self.machines.logs()
    }
}

/// Two commits, of which the agent pushes one, and a file that it does not commit.
fn script() -> [Value; 7] {
    let command = |command: &str| json!({"type": "tool_use", "name": "Bash", "input": {"command": command}});
    let commit = |file: &str| {
        command(&format!(
            "echo $SANDBOX_ID >>{file} && git add {file} && git commit -qm 'Change {file}' && echo made $(git rev-parse HEAD)"
        ))
    };
    let wait = json!({"play": "wait", "ms": 200});
    [
        commit("one.txt"),
        wait.clone(),
        command("git push -q origin HEAD && echo pushed"),
        commit("two.txt"),
        command("echo $SANDBOX_ID >>notes.txt"),
        wait,
        json!({"type": "text", "text": "It is done."}),
    ]
}

/// The commits that an agent has made, according to the log of its sandbox.
fn made(log: &[Value]) -> Vec<String> {
    let completed = log.iter().filter(|event| event["event_type"] == "agent.tool_completed");
    let text: String = completed.map(|event| event["event_data"].to_string()).collect();
    let after = text.split("made ").skip(1).filter_map(|rest| rest.get(..40));
    // The command is in the event, too.
    after.filter(|commit| commit.chars().all(|c| c.is_ascii_hexdigit())).map(str::to_owned).collect()
}

fn head(pull_request: &Value) -> String {
    pull_request["head"]["ref"].as_str().unwrap().to_owned()
}
