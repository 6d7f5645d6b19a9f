//! Failures of GitHub, and what this code host does about them.

use crate::support::{Fixture, Kind, NAME, TOKEN, environment, failed, open, open_in, request};
use code_hosts::{Creation, Merge, MergeMethod, Reason};
use kit::github::{Fault, Faults, Operation, Options, Token};

async fn fixture() -> Fixture {
    Fixture::new(Kind::GitHubToken).await
}

fn squash(head: &str) -> Merge {
    Merge { method: MergeMethod::Squash, head: head.to_owned(), title: None }
}

#[tokio::test]
async fn lost_responses_are_repaired_by_a_retry() {
    let fixture = fixture().await;
    let (host, fake) = (&fixture.host, fixture.fake());
    let main = fixture.commit("main");
    let lose = |operation| fake.set_faults(Faults::none().once(operation, Fault::ResponseLost));

    lose(Operation::CreateBranch);
    let failure = failed(host.create_branch("feature/x", &main).await, Reason::Unreachable);
    assert!(failure.reason.is_transient());
    assert_eq!(host.create_branch("feature/x", &main).await.unwrap(), Creation::Exists { commit: main });

    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    lose(Operation::CreatePullRequest);
    failed(host.propose(&request("feature/x")).await, Reason::Unreachable);
    let number = fixture.propose("feature/x").await.number;
    assert_eq!(fake.pull_requests(NAME).len(), 1);

    lose(Operation::Merge);
    failed(host.merge(number, &squash(&head)).await, Reason::Unreachable);
    let commit = fixture.commit("main");
    assert_eq!(host.merge(number, &squash(&head)).await.unwrap().commit, commit);
    assert_eq!(fixture.commit("main"), commit);

    lose(Operation::DeleteBranch);
    failed(host.delete_branch("feature/x").await, Reason::Unreachable);
    host.delete_branch("feature/x").await.unwrap();
}

#[tokio::test]
async fn pull_request_that_appears_meanwhile_is_updated() {
    let fixture = fixture().await;
    fixture.push("feature/x", &[("new", "x")], "Work");
    let number = fixture.propose("feature/x").await.number;
    // The list is read before the other request has created it.
    let fake = fixture.fake();
    fake.set_faults(Faults::none().once(Operation::PullRequests, Fault::EmptyList));
    assert_eq!(fixture.propose("feature/x").await.number, number);
    assert_eq!(fake.pull_requests(NAME).len(), 1);
}

#[tokio::test]
async fn limits_are_busy_with_the_time_to_wait() {
    let fixture = fixture().await;
    let fake = fixture.fake();
    for (fault, expected) in [
        (Fault::RateLimited { secs: 9 }, Some(9..=9)),
        (Fault::UsedUp { reset_after_secs: 100 }, Some(90..=100)),
        (Fault::UsedUp { reset_after_secs: -5 }, Some(1..=1)),
        (Fault::Rejected { status: 429, message: "slow down".to_owned() }, None),
        (
            Fault::Rejected { status: 403, message: "You have exceeded a secondary rate limit".to_owned() },
            None,
        ),
    ] {
        fake.set_faults(Faults::none().once(Operation::Branches, fault.clone()));
        let failure = fixture.host.branches().await.unwrap_err();
        let Reason::Busy { retry_after_secs } = failure.reason else { panic!("{fault:?}: {failure:?}") };
        assert!(failure.reason.is_transient());
        match (retry_after_secs, expected) {
            (Some(secs), Some(range)) => assert!(range.contains(&secs), "{fault:?}: {secs}"),
            (found, expected) => assert_eq!(found.is_some(), expected.is_some(), "{fault:?}"),
        }
    }
}

#[tokio::test]
async fn statuses_are_told_apart() {
    let fixture = fixture().await;
    for (status, message, expected) in [
        (400, "Problems parsing JSON", Reason::Invalid),
        (401, "Bad credentials", Reason::Unauthorized),
        (403, "Resource not accessible by personal access token", Reason::Unauthorized),
        (404, "Not Found", Reason::NotFound),
        (409, "Git Repository is empty.", Reason::EmptyRepository),
        (422, "Validation Failed", Reason::Invalid),
        (500, "Server Error", Reason::Unreachable),
        (502, "Bad gateway", Reason::Unreachable),
        (504, "Gateway timeout", Reason::Unreachable),
    ] {
        let fault = Fault::Rejected { status, message: message.to_owned() };
        fixture.fake().set_faults(Faults::none().once(Operation::Branches, fault));
        let failure = failed(fixture.host.branches().await, expected);
        let named = [message, &status.to_string(), "listing the branches", NAME];
        assert!(named.iter().all(|part| failure.message.contains(part)), "{failure}");
    }
    fixture.fake().set_faults(Faults::none().once(Operation::Branches, Fault::RequestLost));
    failed(fixture.host.branches().await, Reason::Unreachable);
}

#[tokio::test]
async fn missing_permission_to_push_is_found_before_work_begins() {
    let mut fixture = fixture().await;
    fixture.fake().allow(Token::read_only("ghp_reader"));
    fixture.fake().allow(Token::new("ghp_elsewhere").for_repositories(&["acme/other"]));
    let with = |fixture: &mut Fixture, token: &str| {
        fixture.variables.insert("GITHUB_TOKEN", token.to_owned());
        fixture.reopened()
    };
    let reader = with(&mut fixture, "ghp_reader");
    failed(reader.check(None).await, Reason::PushForbidden);
    assert!(reader.branches().await.is_ok());
    failed(reader.create_branch("x", &fixture.commit("main")).await, Reason::PushForbidden);
    failed(with(&mut fixture, "ghp_elsewhere").check(None).await, Reason::NotFound);
    failed(with(&mut fixture, "ghp_unknown").check(None).await, Reason::Unauthorized);
    let writer = with(&mut fixture, TOKEN);
    fixture.fake().configure(NAME, |settings| settings.archived = true);
    let failure = failed(writer.check(None).await, Reason::PushForbidden);
    assert!(failure.message.contains("archived"), "{failure}");
}

#[tokio::test]
async fn credential_follows_no_redirect_and_no_link_to_another_server() {
    let fixture = fixture().await;
    let other = kit::github::GitHub::start(Options::default()).await;
    let target = format!("{}/api/v3/repos/{NAME}", other.url());
    fixture.fake().configure(NAME, |settings| settings.moved_to = Some(target.clone()));
    let failure = failed(fixture.host.check(None).await, Reason::NotFound);
    assert!(failure.message.contains("moved"), "{failure}");
    fixture.fake().configure(NAME, |settings| settings.moved_to = None);
    fixture.fake().set_faults(Faults::none().once(Operation::Branches, Fault::NextPage { url: target }));
    failed(fixture.host.branches().await, Reason::Unreachable);
    assert_eq!(other.requests(), []);
}

#[tokio::test]
async fn merge_that_a_rule_forbids_is_not_a_conflict() {
    let fixture = fixture().await;
    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    let number = fixture.propose("feature/x").await.number;
    let rule = "At least 1 approving review is required by reviewers with write access.";
    fixture.fake().configure(NAME, |settings| settings.blocked = Some(rule.to_owned()));
    let failure = failed(fixture.host.merge(number, &squash(&head)).await, Reason::NotMergeable);
    assert!(failure.message.contains(rule), "{failure}");
    fixture.fake().configure(NAME, |settings| {
        settings.blocked = None;
        settings.disabled_methods = vec!["squash".to_owned()];
    });
    failed(fixture.host.merge(number, &squash(&head)).await, Reason::NotMergeable);
    for (status, message, expected) in [
        (
            405,
            "Base branch was modified. Review and try the merge again.",
            Reason::Busy { retry_after_secs: None },
        ),
        (409, "Head branch was modified. Review and try the merge again.", Reason::HeadMoved),
        (422, "Validation Failed", Reason::Invalid),
        (403, "Resource not accessible by integration", Reason::PushForbidden),
    ] {
        let fault = Fault::Rejected { status, message: message.to_owned() };
        fixture.fake().set_faults(Faults::none().once(Operation::Merge, fault));
        failed(fixture.host.merge(number, &squash(&head)).await, expected);
    }
    let merge = Merge { method: MergeMethod::Merge, ..squash(&head) };
    fixture.host.merge(number, &merge).await.unwrap();
}

#[tokio::test]
async fn mergeable_is_read_until_it_is_computed() {
    for (pending, reads, expected) in
        [(0, 1, Some(true)), (2, 3, Some(true)), (3, 4, Some(true)), (9, 4, None)]
    {
        let options = Options { pending_mergeable: pending, ..Options::default() };
        let fixture = Fixture::with_options(Kind::GitHubToken, options).await;
        fixture.push("feature/x", &[("new", "x")], "Work");
        let number = fixture.propose("feature/x").await.number;
        let found = fixture.host.pull_request(number).await.unwrap().unwrap();
        assert_eq!(found.mergeable, expected, "{pending}");
        assert_eq!(fixture.fake().calls(Operation::PullRequest), reads, "{pending}");
    }
}

#[tokio::test]
async fn long_lists_are_read_page_by_page() {
    let options = Options { page: 10, ..Options::default() };
    let fixture = Fixture::with_options(Kind::GitHubToken, options).await;
    let main = fixture.commit("main");
    for number in 0..25 {
        fixture.repository.run(&["update-ref", &format!("refs/heads/work/{number}"), &main]);
    }
    assert_eq!(fixture.host.branches().await.unwrap().len(), 26);
    assert_eq!(fixture.fake().calls(Operation::Branches), 3);
    // A failure of a later page is not a short list.
    let fault = Fault::Error;
    fixture
        .fake()
        .set_faults(Faults::none().once(Operation::Branches, Fault::None).once(Operation::Branches, fault));
    failed(fixture.host.branches().await, Reason::Unreachable);
}

#[tokio::test]
async fn checks_of_other_programs_are_listed() {
    use code_hosts::CheckState::{Failure, Neutral, Pending, Success};
    let fixture = fixture().await;
    let main = fixture.commit("main");
    let states = [
        ("failure", Failure),
        ("timed_out", Failure),
        ("action_required", Failure),
        ("success", Success),
        ("skipped", Neutral),
        ("cancelled", Neutral),
        ("neutral", Neutral),
        ("in_progress", Pending),
    ];
    for (state, _) in states {
        fixture.fake().add_check_run(NAME, &main, state, state);
    }
    let checks = fixture.host.checks(&main).await.unwrap();
    assert_eq!(checks.len(), states.len());
    for (name, state) in states {
        assert!(checks.iter().any(|check| check.name == name && check.state == state), "{name}: {checks:?}");
    }
    // The latest run of a name counts.
    fixture.fake().add_check_run(NAME, &main, "failure", "success");
    let checks = fixture.host.checks(&main).await.unwrap();
    assert!(checks.iter().any(|check| check.name == "failure" && check.state == Success), "{checks:?}");
}

#[tokio::test]
async fn repeated_report_of_a_token_is_one_commit_status() {
    let fixture = fixture().await;
    let main = fixture.commit("main");
    let status = code_hosts::Status {
        name: "sunaba".to_owned(),
        state: code_hosts::CheckState::Success,
        summary: "ü".repeat(200),
        url: None,
    };
    for _ in 0..2 {
        fixture.host.report_status(&main, &status).await.unwrap();
    }
    let checks = fixture.host.checks(&main).await.unwrap();
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].summary.as_ref().unwrap().chars().count(), 140);
}

#[tokio::test]
async fn unreachable_server_is_transient() {
    let mut fixture = fixture().await;
    let fake = fixture.fake.take().unwrap();
    let host = open(&fake, &fixture.variables);
    drop(fake);
    let failure = host.branches().await.unwrap_err();
    assert!(failure.reason.is_transient(), "{failure:?}");
}

#[tokio::test]
async fn slow_server_is_not_waited_for() {
    let fixture = fixture().await;
    fixture.fake().set_faults(Faults::none().once(Operation::Branches, Fault::NoResponse));
    let mut impatient = environment(fixture.fake());
    impatient.timeout = std::time::Duration::from_millis(100);
    let host = open_in(&impatient, fixture.fake(), &fixture.variables).unwrap();
    let failure = failed(host.branches().await, Reason::Unreachable);
    assert!(failure.message.contains("timed out"), "{failure}");
}
