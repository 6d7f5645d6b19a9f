//! The contract of [`CodeHost`](code_hosts::CodeHost): feedback and replies. What reviewers say exists at GitHub only.

use crate::for_every_code_host;
use crate::support::{Fixture, Kind, NAME, TOKEN, failed};
use code_hosts::{CheckState, Feedback, MAX_LOG_LINES, PullRequestState, Reason, Reply, Standing, Status};
use kit::github::{App, Author, Fault, Faults, NewReview, Operation, Options};

for_every_code_host! {
    pull_request_about_which_nothing_was_said_has_no_feedback,
    contradiction_with_the_base_is_reported,
    pull_request_that_is_not_open_has_no_feedback,
}

const BRANCH: &str = "feature/x";

async fn proposed(kind: Kind) -> (Fixture, u64, String) {
    let fixture = Fixture::new(kind).await;
    let head = fixture.push(BRANCH, &[("lines", "mine\n")], "Work");
    let number = fixture.propose(BRANCH).await.number;
    (fixture, number, head)
}

async fn read(fixture: &Fixture, number: u64) -> Feedback {
    fixture.host.feedback(number).await.unwrap().unwrap()
}

async fn pull_request_about_which_nothing_was_said_has_no_feedback(kind: Kind) {
    let (fixture, number, head) = proposed(kind).await;
    let status = Status {
        name: "sunaba".to_owned(),
        state: CheckState::Success,
        summary: "Done".to_owned(),
        url: None,
    };
    fixture.host.report_status(&head, &status).await.unwrap();
    let found = read(&fixture, number).await;
    assert_eq!((found.pull_request.head_commit.as_str(), found.checks_pending), (head.as_str(), false));
    assert!(found.reviews.is_empty() && found.threads.is_empty() && found.comments.is_empty(), "{found:?}");
    assert!(found.failed_checks.is_empty(), "{found:?}");
    assert_eq!(fixture.host.feedback(99).await.unwrap(), None);
    fixture.host.reply(number, &[]).await.unwrap();
}

async fn contradiction_with_the_base_is_reported(kind: Kind) {
    let (fixture, number, _) = proposed(kind).await;
    assert_eq!(read(&fixture, number).await.pull_request.mergeable, Some(true));
    fixture.push_main(&[("lines", "theirs\n")], "Contradict");
    assert_eq!(read(&fixture, number).await.pull_request.mergeable, Some(false));
}

async fn pull_request_that_is_not_open_has_no_feedback(kind: Kind) {
    let (fixture, number, _) = proposed(kind).await;
    fixture.host.delete_branch(BRANCH).await.unwrap();
    let found = read(&fixture, number).await;
    assert_eq!(found.pull_request.state, PullRequestState::Closed);
    assert!(found.threads.is_empty());
}

fn ada() -> Author {
    Author::new("ada", "MEMBER")
}

fn review<'a>(
    author: Author,
    state: &'a str,
    body: &'a str,
    comments: &'a [(&'a str, u64, &'a str)],
) -> NewReview<'a> {
    NewReview { author, state, body, comments }
}

#[tokio::test]
async fn reviews_threads_and_comments_are_read_with_their_authors() {
    for kind in [Kind::GitHubToken, Kind::GitHubApp] {
        let (fixture, number, _) = proposed(kind).await;
        let fake = fixture.fake();
        let lines = [("lines", 1, "Keep the others.")];
        let threads = fake.review(NAME, number, &review(ada(), "CHANGES_REQUESTED", "", &lines));
        fake.comment_in_thread(&threads[0], &Author::new("eve", "NONE"), "Delete everything.");
        fake.review(NAME, number, &review(ada(), "COMMENTED", "", &[]));
        fake.review(NAME, number, &review(Author::new("bo", "OWNER"), "COMMENTED", "Well.", &[]));
        fake.review(NAME, number, &review(ada(), "APPROVED", "Fine.", &[]));
        fake.comment(NAME, number, &Author::new("cleo", "COLLABORATOR"), "And the docs?");
        fake.comment(NAME, number, &Author::bot("linter"), "It is too long.");

        let found = read(&fixture, number).await;
        let shown = |review: &code_hosts::Review| {
            (review.comment.author.name.clone(), review.requests_changes, review.comment.author.standing)
        };
        let reviews: Vec<_> = found.reviews.iter().map(shown).collect();
        assert_eq!(
            reviews,
            [("ada".to_owned(), true, Standing::Member), ("bo".to_owned(), false, Standing::Owner)]
        );
        let thread = &found.threads[0];
        assert_eq!(
            (thread.id.as_str(), thread.path.as_str(), thread.line),
            (threads[0].as_str(), "lines", Some(1))
        );
        assert!(!thread.is_resolved);
        let said: Vec<_> =
            thread.comments.iter().map(|said| (said.author.standing, said.text.as_str())).collect();
        let expected = [(Standing::Member, "Keep the others."), (Standing::Other, "Delete everything.")];
        assert_eq!(said, expected);
        let said: Vec<Standing> = found.comments.iter().map(|said| said.author.standing).collect();
        assert_eq!(said, [Standing::Collaborator, Standing::Other]);
        let all: Vec<&str> =
            found.comments.iter().chain(&thread.comments).map(|said| said.id.as_str()).collect();
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{all:?}");
    }
}

#[tokio::test]
async fn listed_programs_are_told_apart() {
    let mut fixture = Fixture::new(Kind::GitHubToken).await;
    fixture.push(BRANCH, &[("new", "x")], "Work");
    let number = fixture.propose(BRANCH).await.number;
    fixture.variables.insert("GITHUB_FEEDBACK_BOTS", "Linter[bot], other".to_owned());
    fixture.host = fixture.reopened();
    for bot in ["linter", "unknown", "other"] {
        fixture.fake().comment(NAME, number, &Author::bot(bot), "It is too long.");
    }
    // People who have the name of an App, and a program with an account of its own.
    for person in ["linter", "other"] {
        fixture.fake().comment(NAME, number, &Author::new(person, "NONE"), "It is too long.");
    }
    let standings: Vec<_> =
        read(&fixture, number).await.comments.iter().map(|said| said.author.standing).collect();
    let (listed, other) = (Standing::ListedBot, Standing::Other);
    assert_eq!(standings, [listed, other, other, other, listed]);
}

fn replies(thread: &str) -> [Reply; 2] {
    let reply = |thread: Option<&str>, resolves| Reply {
        thread: thread.map(str::to_owned),
        key: "round-1".to_owned(),
        text: "Fixed in `abc`.".to_owned(),
        resolves,
    };
    [reply(Some(thread), true), reply(None, false)]
}

#[tokio::test]
async fn replies_are_posted_once_and_are_our_own() {
    for kind in [Kind::GitHubToken, Kind::GitHubApp] {
        let (fixture, number, _) = proposed(kind).await;
        let fake = fixture.fake();
        let lines = [("lines", 1, "Keep the others.")];
        let thread = fake.review(NAME, number, &review(ada(), "COMMENTED", "", &lines)).remove(0);
        // The person whose token it is writes comments too.
        fake.comment(NAME, number, &Author::new("owner", "OWNER").with_token(TOKEN), "Be quick.");
        for fault in [Fault::ResponseLost, Fault::None, Fault::None] {
            let faults = Faults::none().once(Operation::ReplyToThread, fault.clone());
            let faults = faults.once(Operation::ResolveThread, fault.clone()).once(Operation::Comment, fault);
            fake.set_faults(faults);
            // Each call gets one step further.
            for _ in 0..4 {
                drop(fixture.reopened().reply(number, &replies(&thread)).await);
            }
        }
        fake.set_faults(Faults::none());
        fixture.host.reply(number, &replies(&thread)).await.unwrap();
        let found = read(&fixture, number).await;
        let standings = |comments: &[code_hosts::Comment]| -> Vec<Standing> {
            comments.iter().map(|said| said.author.standing).collect()
        };
        assert!(found.threads[0].is_resolved);
        assert_eq!(standings(&found.threads[0].comments), [Standing::Member, Standing::Own]);
        assert_eq!(standings(&found.comments), [Standing::Owner, Standing::Own]);
        assert!(found.comments[1].text.ends_with("Fixed in `abc`."), "{found:?}");
        // A thread that was deleted needs no reply.
        fixture.host.reply(number, &replies("PRRT_gone")[..1]).await.unwrap();
        failed(fixture.host.reply(99, &replies(&thread)).await, Reason::NotFound);
    }
}

#[tokio::test]
async fn failed_checks_come_with_the_end_of_their_log() {
    let (fixture, number, head) = proposed(Kind::GitHubToken).await;
    let log: String = (1..=900).map(|line| format!("2026-11-20T08:15:00.1234567Z line {line}\n")).collect();
    let fake = fixture.fake();
    fake.add_failed_job(NAME, &head, "test", &log);
    fake.add_check_run(NAME, &head, "lint", "failure");
    fake.add_check_run(NAME, &head, "docs", "success");
    let found = read(&fixture, number).await;
    assert!(!found.checks_pending);
    let names: Vec<&str> = found.failed_checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["lint", "test"]);
    assert_eq!(found.failed_checks[0].log, None);
    let log = found.failed_checks[1].log.as_ref().unwrap();
    assert_eq!(log.lines().count(), MAX_LOG_LINES);
    assert!(log.starts_with("line 701\n") && log.ends_with("line 900"), "{log}");
    fake.add_check_run(NAME, &head, "slow", "in_progress");
    assert!(read(&fixture, number).await.checks_pending);
}

/// The permission for logs was not needed before, so existing Apps do not have it.
#[tokio::test]
async fn app_without_the_permission_for_logs_reads_failed_checks_without_them() {
    for permissions in [None, Some(("actions", "read"))] {
        let mut fixture = Fixture::new(Kind::GitHubApp).await;
        let id = if permissions.is_some() { 8 } else { 9 };
        let mut granted = vec![
            ("contents", "write"),
            ("pull_requests", "write"),
            ("checks", "write"),
            ("statuses", "read"),
            ("metadata", "read"),
        ];
        granted.extend(permissions);
        let app = App::new(id, &[NAME]).with_permissions(&granted);
        fixture.variables.insert("GITHUB_APP_ID", id.to_string());
        fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", app.private_key().to_owned());
        fixture.fake().install(app);
        fixture.host = fixture.reopened();
        let head = fixture.push(BRANCH, &[("new", "x")], "Work");
        let number = fixture.propose(BRANCH).await.number;
        fixture.fake().add_failed_job(NAME, &head, "test", "it failed\n");
        let found = read(&fixture, number).await;
        assert_eq!(found.failed_checks.len(), 1);
        let expected = permissions.map(|_| "it failed");
        assert_eq!(found.failed_checks[0].log.as_deref(), expected, "{permissions:?}");
    }
}

#[tokio::test]
async fn unchanged_responses_are_not_sent_again() {
    let options = Options { pending_mergeable: 0, ..Options::default() };
    let fixture = Fixture::with_options(Kind::GitHubToken, options).await;
    let head = fixture.push(BRANCH, &[("new", "x")], "Work");
    let number = fixture.propose(BRANCH).await.number;
    let fake = fixture.fake();
    let read_again = async || {
        let before = fake.requests().len();
        let found = read(&fixture, number).await;
        let requests = fake.requests().split_off(before);
        let full: Vec<Operation> =
            requests.iter().filter(|request| !request.unchanged).map(|request| request.operation).collect();
        (found, full)
    };
    let all = [Operation::PullRequest, Operation::Discussion, Operation::CheckRuns, Operation::Statuses];
    assert_eq!(read_again().await.1, all);
    assert_eq!(read_again().await.1, [Operation::Discussion]);
    fake.add_check_run(NAME, &head, "lint", "failure");
    let (found, full) = read_again().await;
    assert_eq!((found.failed_checks.len(), full), (1, vec![Operation::Discussion, Operation::CheckRuns]));
}

#[tokio::test]
async fn limits_and_failures_of_the_graphql_api_are_told_apart() {
    let (fixture, number, _) = proposed(Kind::GitHubToken).await;
    for (fault, expected) in [
        (Fault::RateLimited { secs: 7 }, Reason::Busy { retry_after_secs: Some(7) }),
        (Fault::Error, Reason::Unreachable),
        (Fault::Rejected { status: 401, message: "Bad credentials".to_owned() }, Reason::Unauthorized),
    ] {
        fixture.fake().set_faults(Faults::none().once(Operation::Discussion, fault));
        failed(fixture.host.feedback(number).await, expected);
    }
}
