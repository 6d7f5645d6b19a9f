use super::*;
use crate::confinement::unconfined;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

fn done() -> GitState {
    GitState {
        is_repository: true,
        is_clean: true,
        branch: Some("work".to_owned()),
        head: Some("1".repeat(40)),
        ahead: Some(0),
        has_upstream: true,
        is_pushed: true,
        has_pr: Some(true),
        pr_url: Some("https://x/7".to_owned()),
        pr_number: Some(7),
        ci_status: Some("success".to_owned()),
        files_changed: Some(1),
        host_commit: None,
    }
}

fn tests(outcome: Outcome, tail: &str) -> Tests {
    let duration = Duration::from_secs(9);
    Tests { command: "make test".to_owned(), outcome, tail: tail.to_owned(), duration }
}

#[test]
fn unmet_requirements_are_listed() {
    let all = || Requirements { clean: true, pushed: true, pull_request: true, tests: None };
    let with = |outcome| Requirements { tests: Some(tests(outcome, "1 failed\n")), ..all() };
    let unpushed = || GitState { is_pushed: false, has_upstream: false, ahead: None, ..done() };
    for (state, requirements, errors) in [
        (done(), all(), vec![]),
        (GitState::default(), Requirements::default(), vec![]),
        (GitState::default(), all(), vec!["there is no git repository"]),
        (GitState { is_clean: false, ..done() }, all(), vec!["there are uncommitted changes"]),
        (GitState { is_clean: false, ..done() }, Requirements { clean: false, ..all() }, vec![]),
        (unpushed(), all(), vec!["the branch is not pushed"]),
        (unpushed(), Requirements { pushed: false, ..all() }, vec![]),
        (GitState { ahead: Some(2), ..unpushed() }, all(), vec!["2 commits are not pushed"]),
        (GitState { branch: None, ..unpushed() }, all(), vec!["no branch is checked out"]),
        (GitState { has_pr: Some(false), ..done() }, all(), vec!["there is no pull request"]),
        (GitState { has_pr: None, ..done() }, all(), vec!["the pull request status could not be determined"]),
        (GitState { has_pr: None, ..done() }, Requirements { pull_request: false, ..all() }, vec![]),
        (
            GitState { ci_status: Some("failure".to_owned()), ..done() },
            all(),
            vec!["pull request checks are failing"],
        ),
        (GitState { ci_status: Some("pending".to_owned()), ..done() }, all(), vec![]),
        (done(), with(Outcome::Passed), vec![]),
        (done(), with(Outcome::Failed(Some(2))), vec!["the tests failed with exit code 2"]),
        (done(), with(Outcome::TimedOut), vec!["the tests did not finish within 9 s"]),
        (
            GitState { is_clean: false, has_pr: Some(false), ..unpushed() },
            with(Outcome::Failed(None)),
            vec![
                "there are uncommitted changes",
                "the branch is not pushed",
                "there is no pull request",
                "the tests were killed",
            ],
        ),
    ] {
        let validation = evaluate(&state, &requirements);
        assert_eq!(validation.errors, errors, "{state:?} {requirements:?}");
        assert_eq!(validation.passed, errors.is_empty());
        assert_eq!(validation.feedback.contains("All requirements"), validation.passed);
    }
}

#[test]
fn feedback_contains_instructions() {
    let state = GitState { is_pushed: false, ahead: None, ..done() };
    let tests = Some(tests(Outcome::Failed(Some(1)), "assertion failed: x\n"));
    let validation = evaluate(&state, &Requirements { pushed: true, tests, ..Requirements::default() });
    assert_eq!(
        validation.feedback,
        "The branch is not pushed. Push with `git push -u origin work`.\n\
         The tests failed with exit code 1. Run `make test` and fix the failures. The output ended with:\n\
         assertion failed: x\n"
    );
}

struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        fixture.git("", &["init", "--quiet", "--bare", "-b", "main", "remote.git"]);
        fixture.git("", &["clone", "--quiet", "remote.git", "root"]);
        fixture.git("root", &["checkout", "--quiet", "-b", "main"]);
        fixture.commit("first");
        fixture.git("root", &["push", "--quiet", "-u", "origin", "main"]);
        fixture.git("root", &["remote", "set-head", "origin", "main"]);
        fixture.git("root", &["checkout", "--quiet", "-b", "work"]);
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn git(&self, dir: &str, arguments: &[&str]) {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(self.path(dir))
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn commit(&self, name: &str) {
        fs::write(self.path("root").join(name), name).unwrap();
        self.git("root", &["add", "-A"]);
        self.git("root", &["commit", "--quiet", "-m", name]);
    }

    async fn git_state(&self) -> GitState {
        self.git_state_with("no-such-gh").await
    }

    async fn git_state_with(&self, gh: &str) -> GitState {
        let (launcher, root, gh) = (unconfined(), self.path("root"), self.path(gh));
        git_state(InspectOptions {
            root: &root,
            launcher: &launcher,
            repository: None,
            base_branch: Some("main"),
            relay: None,
            gh: &gh,
        })
        .await
    }
}

#[tokio::test]
async fn new_branch_is_not_pushed() {
    let fixture = Fixture::new();
    let state = fixture.git_state().await;
    assert!(state.is_repository && state.is_clean && state.head.is_some());
    assert_eq!(state.branch.as_deref(), Some("work"));
    assert_eq!((state.has_upstream, state.ahead, state.is_pushed), (false, None, false));
    assert_eq!((state.has_pr, state.files_changed), (None, Some(0)));
}

#[tokio::test]
async fn committed_and_pushed_state_is_detected() {
    let fixture = Fixture::new();
    fs::write(fixture.path("root/new"), "x").unwrap();
    let state = fixture.git_state().await;
    assert_eq!((state.is_clean, state.files_changed), (false, Some(1)));
    fixture.commit("second");
    assert!(fixture.git_state().await.is_clean);
    // Also without `-u`.
    fixture.git("root", &["push", "--quiet", "origin", "work"]);
    let state = fixture.git_state().await;
    assert_eq!((state.has_upstream, state.ahead, state.is_pushed), (false, Some(0), true));
    fixture.commit("third");
    let state = fixture.git_state().await;
    assert_eq!((state.ahead, state.is_pushed, state.files_changed), (Some(1), false, Some(3)));
    fixture.git("root", &["push", "--quiet", "-u", "origin", "work"]);
    let state = fixture.git_state().await;
    assert_eq!((state.has_upstream, state.is_pushed), (true, true));
    fixture.git("root", &["checkout", "--quiet", "--detach"]);
    let state = fixture.git_state().await;
    assert_eq!((state.branch, state.is_pushed), (None, false));
}

#[tokio::test]
async fn directory_without_git_is_not_a_repository() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = unconfined();
    let options = InspectOptions {
        root: dir.path(),
        launcher: &launcher,
        repository: None,
        base_branch: None,
        relay: None,
        gh: Path::new("no-such-gh"),
    };
    assert_eq!(git_state(options).await, GitState::default());
}

#[tokio::test]
async fn pull_request_is_found_with_gh() {
    let fixture = Fixture::new();
    let script = "#!/bin/sh\necho '{\"number\":7,\"url\":\"https://x/7\",\"state\":\"OPEN\",\
                  \"statusCheckRollup\":[{\"conclusion\":\"FAILURE\"}]}'\n";
    // Written by another process: a file that this process has open for writing cannot be executed (ETXTBSY).
    let write = r#"printf %s "$1" > "$2" && chmod 700 "$2""#;
    let written =
        std::process::Command::new("sh").args(["-c", write, "sh", script]).arg(fixture.path("gh")).status();
    assert!(written.unwrap().success());
    let state = fixture.git_state_with("gh").await;
    assert_eq!(
        (state.has_pr, state.pr_number, state.ci_status.as_deref()),
        (Some(true), Some(7), Some("failure"))
    );
}

#[tokio::test]
async fn test_outcome_and_output_tail_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        async |command: &str| run_tests(dir.path(), &unconfined(), command, Duration::from_secs(20)).await;
    assert_eq!(run("test -d .").await.outcome, Outcome::Passed);
    let failed = run("seq 1 5000; echo wrong >&2; exit 3").await;
    assert_eq!(failed.outcome, Outcome::Failed(Some(3)));
    assert!(failed.tail.ends_with("5000\nwrong\n") && failed.tail.len() <= TAIL_BYTES);
    let slow = run_tests(dir.path(), &unconfined(), "sleep 300", Duration::from_millis(50)).await;
    assert_eq!(slow.outcome, Outcome::TimedOut);
}
