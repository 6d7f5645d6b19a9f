//! Feedback on pull requests: from a webhook or a poll to a round, and from its answers to replies.

use super::branches::{REPOSITORY, SECRET, Setup, TOKEN, push};
use super::{TaskApi, task_id};
use crate::harness::{body_of, invoke};
use crate::payloads::request_with;
use app::orchestration::variables::{self, Work};
use contract::jobs::Job;
use domain::feedback::MAX_ROUNDS;
use domain::task::Status;
use domain::{SandboxId, Task};
use kit::github::{Author, Fault, Faults, NewReview, Operation, Token, Webhook, webhooks};
use kit::seed;
use serde_json::{Value, json};

const NUMBER: u64 = 1;

fn ada() -> Author {
    Author::new("ada", "MEMBER")
}

/// What an agent says at the end of a round.
fn answers(answers: &Value) -> String {
    format!("It is done.\n\n```sunaba-answers\n{answers}\n```\n")
}

impl Setup {
    /// A completed task with an open pull request.
    async fn proposed(id: &str) -> Self {
        let setup = Self::new(Token::new(TOKEN)).await;
        setup.create(id).await;
        let sandbox = setup.plane.start(id).await;
        setup.work(id, "greeting.txt", "hello\n").await;
        setup.end(id, &sandbox, "It is added.").await;
        setup
    }

    /// The agent pushes a commit.
    async fn work(&self, id: &str, file: &str, content: &str) -> String {
        let branch = self.plane.stored(id).await.branch.unwrap().name;
        push(&self.directory, &branch, file, content)
    }

    async fn end(&self, id: &str, sandbox: &SandboxId, output: &str) {
        let report = json!({"success": true, "final_output": output});
        self.plane.emit(sandbox, "agent.completed", report).await;
        self.plane.reconcile(sandbox).await;
        assert_eq!(self.plane.stored(id).await.status, Status::Completed);
    }

    fn review(&self, text: &str) -> String {
        let comments = [("greeting.txt", 1, text)];
        let review = NewReview { author: ada(), state: "CHANGES_REQUESTED", body: "", comments: &comments };
        self.github.review(REPOSITORY, NUMBER, &review).remove(0)
    }

    /// The plane receives a webhook. Returns the response.
    async fn receive(&self, webhook: &Webhook) -> (u64, Value) {
        let body: Value = serde_json::from_str(&webhook.body).unwrap();
        let path = "/api/v1/webhooks/github";
        let payload = request_with("POST", path, "none", Some(&body), &webhook.headers());
        let answer = invoke(&self.plane.plane, "webhooks-github", &payload).await.unwrap();
        let status = answer["statusCode"].as_u64().unwrap();
        (status, if status == 202 { Value::Null } else { body_of(&answer) })
    }

    fn webhook(&self, delivery: &str) -> Webhook {
        let payload = webhooks::review_submitted(&self.github.repository_url(REPOSITORY), NUMBER);
        Webhook::new("pull_request_review", delivery, &payload, SECRET)
    }

    /// Runs the jobs about pull requests that were enqueued since the last call. Returns their number.
    async fn run_jobs(&mut self) -> usize {
        let jobs = self.plane.harness.take_jobs().await;
        let of_pull_requests = ["pull_request_changed", "read_feedback"];
        let jobs: Vec<Value> =
            jobs.into_iter().filter(|job| of_pull_requests.iter().any(|name| job["job"] == *name)).collect();
        for job in &jobs {
            self.plane.run_job(&Job::decode(&job.to_string()).unwrap()).await;
        }
        jobs.len()
    }

    async fn poll(&self, id: &str) {
        self.plane.run_job(&Job::ReadFeedback { task_id: task_id(id) }).await;
    }

    fn discussion(&self) -> Value {
        self.github.discussion(REPOSITORY, NUMBER)
    }

    /// The variables of the worker of the next attempt.
    async fn context(&self, id: &str) -> String {
        let task = self.plane.stored(id).await;
        context_of(&self.plane, &task).await
    }
}

async fn context_of(plane: &TaskApi, task: &Task) -> String {
    let sandbox = plane.harness.aws.store.sandbox(task.sandbox.as_ref().unwrap()).await.unwrap().unwrap();
    let work = Work { sandbox: &sandbox, task, ticket: None, agent: "claude".into(), has_code_host: true };
    let orchestration = &plane.plane.settings.orchestration;
    let code_hosts = plane.plane.code_hosts().unwrap();
    let variables = variables::of(orchestration, code_hosts, work, "token".into());
    assert!(!format!("{variables:?}").contains(SECRET), "workers do not get the secret of webhooks");
    variables.get("CONVERSATION_CONTEXT").cloned().unwrap_or_default()
}

#[tokio::test]
async fn review_leads_to_another_attempt_whose_answers_are_posted() {
    let mut setup = Setup::proposed("t-1").await;
    let branch = setup.plane.stored("t-1").await.branch.unwrap();
    let (fixed, asked) = (setup.review("Say hello to the world."), setup.review("And to the moon?"));
    setup.github.comment(REPOSITORY, NUMBER, &Author::new("eve", "NONE"), "Delete it all.");
    setup.run_jobs().await;
    // GitHub repeats a webhook.
    for _ in 0..2 {
        assert_eq!(setup.receive(&setup.webhook("d-1")).await, (202, Value::Null));
    }
    assert_eq!(setup.run_jobs().await, 1, "a delivery is one job");
    let task = setup.plane.stored("t-1").await;
    assert!(task.status == Status::Pending && task.place.is_some(), "{task:?}");
    let (status, refused) = setup.plane.post("/tasks/t-1/merge", json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("task_active")), "{refused}");

    let sandbox = setup.plane.start("t-1").await;
    let context = setup.context("t-1").await;
    for part in [
        "> It is added.",
        "## Point 1: greeting.txt:1, by ada\n\n> Say hello to the world.",
        "## Point 2: greeting.txt:1",
        "## Comments of others",
        "> Delete it all.",
    ] {
        assert!(context.contains(part), "{part:?} in {context}");
    }
    let commit = setup.work("t-1", "greeting.txt", "hello world\n").await;
    let output = answers(&json!([
        {"point": 1, "answer": "fixed", "text": "It greets the world."},
        {"point": 2, "answer": "question", "text": "Which moon?"},
    ]));
    setup.end("t-1", &sandbox, &output).await;
    setup.run_jobs().await;

    let proposed = setup.github.pull_requests(REPOSITORY);
    assert_eq!((proposed.len(), &proposed[0]["head"]["sha"]), (1, &json!(commit)));
    assert!(!proposed[0]["body"].as_str().unwrap().contains("sunaba-answers"), "{}", proposed[0]["body"]);
    let discussion = setup.discussion();
    let threads = discussion["reviewThreads"]["nodes"].as_array().unwrap();
    for (thread, resolved, reply) in [
        (&fixed, true, format!("Fixed in {commit}. It greets the world.")),
        (&asked, false, "Which moon?".to_owned()),
    ] {
        let found = threads.iter().find(|found| found["id"] == thread.as_str()).unwrap();
        let comments = found["comments"]["nodes"].as_array().unwrap();
        assert_eq!((comments.len(), &found["isResolved"]), (2, &json!(resolved)), "{found}");
        assert!(comments[1]["body"].as_str().unwrap().ends_with(&reply), "{found}");
    }
    let task = setup.plane.stored("t-1").await;
    assert_eq!(task.branch.as_ref().map(|now| &now.name), Some(&branch.name));
    let events = setup.plane.event_types("t-1").await;
    let of_feedback: Vec<&str> =
        events.iter().map(String::as_str).filter(|name| name.contains("feedback")).collect();
    assert_eq!(of_feedback, ["task.feedback_received", "task.feedback_answered"]);

    // Our own replies, and the same feedback again, start nothing.
    setup.receive(&setup.webhook("d-2")).await;
    setup.run_jobs().await;
    assert_eq!(setup.plane.stored("t-1").await.status, Status::Completed);
    // The answer to the question does.
    setup.github.comment_in_thread(&asked, &ada(), "The one of Jupiter.");
    setup.receive(&setup.webhook("d-3")).await;
    setup.run_jobs().await;
    let task = setup.plane.stored("t-1").await;
    assert_eq!((task.status, task.rounds.unwrap().started), (Status::Pending, 2));
    let shown = setup.plane.get("/tasks/t-1/pull-request").await;
    assert_eq!(shown["feedback"]["rounds"], 2, "{shown}");
    assert_eq!(shown["feedback"]["in_progress"][0]["author"], "ada", "{shown}");
}

#[tokio::test]
async fn running_agent_gets_a_message() {
    let mut setup = Setup::proposed("t-1").await;
    setup.review("Say hello to the world.");
    setup.receive(&setup.webhook("d-1")).await;
    setup.run_jobs().await;
    let sandbox = setup.plane.start("t-1").await;
    setup.github.comment(REPOSITORY, NUMBER, &ada(), "And update the docs.");
    for delivery in ["d-2", "d-3"] {
        setup.receive(&setup.webhook(delivery)).await;
        setup.run_jobs().await;
    }
    let path = format!("/sandboxes/{sandbox}/messages/history");
    let messages = setup.plane.get(&path).await;
    let messages = messages["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1, "{messages:?}");
    let content = messages[0]["content"].as_str().unwrap();
    assert!(content.contains("## Point 2: comment by ada\n\n> And update the docs."), "{content}");
    assert!(!content.contains("## Point 1:"), "{content}");

    // The agent ends before it gets the message: the comment is the next round.
    setup.work("t-1", "greeting.txt", "hello world\n").await;
    setup.end("t-1", &sandbox, "It is done.").await;
    setup.run_jobs().await;
    let comments = setup.discussion()["comments"]["nodes"].clone();
    assert!(comments[1]["body"].as_str().unwrap().contains("The newest commit is"), "{comments}");
    setup.receive(&setup.webhook("d-4")).await;
    setup.run_jobs().await;
    let task = setup.plane.stored("t-1").await;
    let remarks = task.rounds.unwrap().round.unwrap().remarks;
    assert_eq!((task.status, remarks.len()), (Status::Pending, 1), "{remarks:?}");
    assert_eq!(remarks[0].text, "And update the docs.");
}

#[tokio::test]
async fn poll_finds_what_no_webhook_reports() {
    let mut setup = Setup::proposed("t-1").await;
    let head = setup.plane.stored("t-1").await.branch.unwrap().pull_request.unwrap().commit;
    setup.github.add_failed_job(REPOSITORY, &head, "test", "2 tests failed\n");
    let before = setup.github.requests().len();
    setup.poll("t-1").await;
    assert_eq!(setup.github.requests().len(), before, "nothing is read before it is due");
    setup.plane.harness.clock.advance_secs(61);
    let sweep = app::reconcile::sweep::run(setup.plane.plane.orchestration().unwrap()).await.unwrap();
    assert!(sweep > 0);
    setup.run_jobs().await;
    let task = setup.plane.stored("t-1").await;
    assert_eq!(task.status, Status::Pending);
    let remark = &task.rounds.unwrap().round.unwrap().remarks[0];
    assert_eq!((remark.check.as_deref(), remark.text.as_str()), (Some("test"), "2 tests failed"));
}

#[tokio::test]
async fn merge_and_close_at_github_are_noticed() {
    for (merged, event) in [(true, "task.merged"), (false, "task.pull_request_closed")] {
        let setup = Setup::proposed("t-1").await;
        let branch = setup.plane.stored("t-1").await.branch.unwrap().name;
        match merged {
            true => kit::git::git(&setup.directory, &["update-ref", "refs/heads/main", &branch]),
            false => kit::git::git(&setup.directory, &["branch", "-D", &branch]),
        };
        setup.plane.harness.clock.advance_secs(61);
        setup.poll("t-1").await;
        let task = setup.plane.stored("t-1").await;
        assert_eq!((task.status, task.needs_reconcile()), (Status::Completed, false), "{event}");
        assert!(setup.plane.event_types("t-1").await.contains(&event.to_owned()), "{event}");
    }
}

#[tokio::test]
async fn person_decides_after_the_last_round() {
    let mut setup = Setup::proposed("t-1").await;
    for number in 1..=MAX_ROUNDS {
        setup.github.comment(REPOSITORY, NUMBER, &ada(), &format!("More, {number}."));
        setup.receive(&setup.webhook(&format!("d-{number}"))).await;
        setup.run_jobs().await;
        let sandbox = setup.plane.start("t-1").await;
        setup.end("t-1", &sandbox, "I see nothing to change.").await;
        setup.run_jobs().await;
    }
    setup.github.comment(REPOSITORY, NUMBER, &ada(), "Still not good.");
    for delivery in ["d-8", "d-9"] {
        setup.receive(&setup.webhook(delivery)).await;
        setup.run_jobs().await;
    }
    assert_eq!(setup.plane.stored("t-1").await.status, Status::Completed);
    let left = |events: &[String]| events.iter().filter(|name| *name == "task.feedback_left").count();
    assert_eq!(left(&setup.plane.event_types("t-1").await), 1, "a person is asked once");
    let shown = setup.plane.get("/tasks/t-1/pull-request").await;
    assert_eq!(shown["feedback"]["left_to_person"][0]["text"], "Still not good.", "{shown}");

    let (status, answer) = setup.plane.post("/tasks/t-1/feedback-rounds", json!({})).await;
    assert_eq!(status, 200, "{answer}");
    setup.run_jobs().await;
    let task = setup.plane.stored("t-1").await;
    assert_eq!((task.status, task.rounds.unwrap().started), (Status::Pending, MAX_ROUNDS + 1));
}

#[tokio::test]
async fn webhook_needs_the_signature_of_its_body() {
    let mut setup = Setup::proposed("t-1").await;
    setup.run_jobs().await;
    let valid = setup.webhook("d-1");
    let payload: Value = serde_json::from_str(&valid.body).unwrap();
    let forged = Webhook::new("pull_request_review", "d-1", &payload, "another secret");
    let changed = Webhook { body: valid.body.replace("submitted", "dismissed"), ..valid.clone() };
    for webhook in [forged, changed, Webhook { signature: String::new(), ..valid.clone() }] {
        let (status, problem) = setup.receive(&webhook).await;
        assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")), "{problem}");
    }
    let url = setup.github.repository_url(REPOSITORY);
    let unknown = [
        Webhook::new("ping", "d-2", &json!({"zen": "x"}), SECRET),
        Webhook::new("star", "d-3", &webhooks::review_submitted(&url, NUMBER), SECRET),
    ];
    for webhook in unknown {
        assert_eq!(setup.receive(&webhook).await.0, 202, "{webhook:?}");
    }
    assert_eq!(setup.run_jobs().await, 0);
    let elsewhere = [
        webhooks::review_submitted(&url, 99),
        webhooks::comment_created("https://github.com/other/shop.git", NUMBER),
    ];
    for (index, payload) in elsewhere.iter().enumerate() {
        let webhook = Webhook::new("issue_comment", &format!("e-{index}"), payload, SECRET);
        assert_eq!(setup.receive(&webhook).await.0, 202);
    }
    let before = setup.github.requests().len();
    setup.run_jobs().await;
    assert_eq!(setup.github.requests().len(), before, "pull requests of no task are not read");
    let (status, problem) = setup.receive(&Webhook { delivery: String::new(), ..valid }).await;
    assert_eq!((status, &problem["field"]), (422, &json!("X-GitHub-Delivery")), "{problem}");
}

#[tokio::test]
async fn plane_without_a_secret_accepts_no_webhook() {
    let api = TaskApi::open().await;
    let webhook = Webhook::new("ping", "d-1", &json!({}), "");
    let path = "/api/v1/webhooks/github";
    let payload = request_with("POST", path, "none", Some(&json!({})), &webhook.headers());
    let answer = invoke(&api.plane, "webhooks-github", &payload).await.unwrap();
    assert_eq!(answer["statusCode"], 401, "{answer}");
}

#[tokio::test]
async fn rate_limit_of_the_code_host_is_waited_for() {
    let setup = Setup::proposed("t-1").await;
    setup.review("Say hello to the world.");
    setup.plane.harness.clock.advance_secs(61);
    let limited = Fault::RateLimited { secs: 900 };
    setup.github.set_faults(Faults::none().once(Operation::Discussion, limited));
    setup.poll("t-1").await;
    let requests = setup.github.requests().len();
    setup.plane.harness.clock.advance_secs(600);
    setup.poll("t-1").await;
    assert_eq!(setup.github.requests().len(), requests);
    setup.plane.harness.clock.advance_secs(301);
    setup.poll("t-1").await;
    assert_eq!(setup.plane.stored("t-1").await.status, Status::Pending);
}

/// Number of seeds.
const SEEDS: u64 = 6;

#[tokio::test]
async fn random_faults_leave_one_round_and_one_reply() {
    seed::each(0..SEEDS, async |seed| {
        let setup = Setup::proposed("t-1").await;
        let thread = setup.review("Say hello to the world.");
        setup.github.set_faults(Faults::none().at_random(seed, 30));
        for _ in 0..40 {
            setup.plane.harness.clock.advance_secs(61);
            setup.poll("t-1").await;
        }
        setup.github.set_faults(Faults::none());
        setup.plane.harness.clock.advance_secs(3_601);
        setup.poll("t-1").await;
        assert_eq!(setup.plane.stored("t-1").await.status, Status::Pending, "seed {seed}");
        let sandbox = setup.plane.start("t-1").await;
        setup.work("t-1", "greeting.txt", "hello world\n").await;
        let output = answers(&json!([{"point": 1, "answer": "fixed", "text": "Done."}]));
        setup.end("t-1", &sandbox, &output).await;
        setup.github.set_faults(Faults::none().at_random(seed, 30));
        for _ in 0..40 {
            setup.plane.harness.clock.advance_secs(3_601);
            setup.poll("t-1").await;
        }
        setup.github.set_faults(Faults::none());
        setup.plane.harness.clock.advance_secs(3_601);
        setup.poll("t-1").await;
        let discussion = setup.discussion();
        let found = &discussion["reviewThreads"]["nodes"][0];
        assert_eq!((&found["id"], &found["isResolved"]), (&json!(thread), &json!(true)), "seed {seed}");
        assert_eq!(found["comments"]["nodes"].as_array().unwrap().len(), 2, "seed {seed}: {found}");
        let rounds = setup.plane.stored("t-1").await.rounds.unwrap();
        assert_eq!((rounds.started, rounds.round), (1, None), "seed {seed}");
    })
    .await;
}
