//! Validates that a task is done: state of git and the pull request, test results, and what is missing.
//!
//! Collecting the state ([`git_state`], [`run_tests`]) and evaluating it ([`evaluate`]) are separate. What cannot be
//! determined does not count as done.

use super::git::Git;
use super::process::{self, Failure};
use super::pull_request::{self, PullRequest};
use super::repository::Repository;
use crate::relay::Relay;
use confine::Launcher;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Timeout of one git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Size of the tail of the test output that is kept.
const TAIL_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, Copy)]
pub struct InspectOptions<'a> {
    pub root: &'a Path,
    pub launcher: &'a Launcher,
    /// The repository that was cloned, if any.
    pub repository: Option<&'a Repository>,
    /// Branch to merge into. The default branch of `origin` if `None`.
    pub base_branch: Option<&'a str>,
    /// Knows what the host has, if there is a repository.
    pub relay: Option<&'a Relay>,
    /// Path of the GitHub CLI.
    pub gh: &'a Path,
}

/// State of the repository and its pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitState {
    /// If `false`, the other fields are meaningless.
    pub is_repository: bool,
    /// Whether all changes are committed, including new files.
    pub is_clean: bool,
    /// `None` if HEAD is detached.
    pub branch: Option<String>,
    /// Commit of HEAD, if there is one.
    pub head: Option<String>,
    /// Number of commits that the remote branch does not have, if there is a remote branch.
    pub ahead: Option<u64>,
    pub has_upstream: bool,
    /// Whether the remote branch exists and has all commits.
    pub is_pushed: bool,
    /// `None` if it could not be determined.
    pub has_pr: Option<bool>,
    pub pr_url: Option<String>,
    pub pr_number: Option<u64>,
    /// `success`, `failure` or `pending`; `None` without checks.
    pub ci_status: Option<String>,
    /// Number of files that differ from the base branch.
    pub files_changed: Option<u64>,
    /// The last commit of the branch of the task at the host.
    pub host_commit: Option<String>,
}

/// Conditions for a task to count as done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// All changes are committed.
    pub clean: bool,
    /// All commits are pushed.
    pub pushed: bool,
    /// A pull request exists.
    pub pull_request: bool,
    /// Test results, if there is a test command. They must pass.
    pub tests: Option<Tests>,
}

/// Test results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tests {
    pub command: String,
    pub outcome: Outcome,
    /// The end of the output.
    pub tail: String,
    pub duration: Duration,
}

/// How the test command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Exit code, or `None` if a signal terminated it.
    Failed(Option<i32>),
    TimedOut,
    NotRun(String),
}

/// Result of [`evaluate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    pub passed: bool,
    /// Instructions for the agent.
    pub feedback: String,
    /// Unmet requirements.
    pub errors: Vec<String>,
}

pub async fn git_state(options: InspectOptions<'_>) -> GitState {
    let git = Git::new(options.root, options.launcher);
    let run = async |arguments: &[&str]| git.text(arguments, GIT_TIMEOUT).await.ok();
    if run(&["rev-parse", "--is-inside-work-tree"]).await.as_deref() != Some("true") {
        return GitState::default();
    }
    let head = run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await;
    let branch = run(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
    let upstream = run(&["rev-parse", "--verify", "--quiet", "--symbolic-full-name", "@{upstream}"]).await;
    let has_upstream = upstream.is_some();
    // A branch can be pushed without setting an upstream.
    let remote = match (upstream, &branch) {
        (None, Some(branch)) => {
            let remote = format!("refs/remotes/origin/{branch}");
            run(&["show-ref", "--verify", "--quiet", &remote]).await.map(|_| remote)
        }
        (upstream, _) => upstream,
    };
    let ahead = match &remote {
        Some(remote) => run(&["rev-list", "--count", &format!("{remote}..HEAD")]).await,
        None => None,
    };
    let ahead = ahead.and_then(|count| count.parse().ok());
    let pull_request = match &branch {
        Some(branch) => pull_request::find(&options, branch).await,
        None => None,
    };
    let (has_pr, found) = match pull_request {
        Some(PullRequest::Found(found)) => (Some(true), Some(found)),
        Some(PullRequest::None) => (Some(false), None),
        None => (None, None),
    };
    // The workspace belongs to the agent, which can write anything into it. The relay does not.
    let (is_pushed, host_commit) = match (options.relay, &head) {
        (Some(relay), Some(head)) => (relay.host_has(head).await, relay.at_host().await),
        (Some(relay), None) => (false, relay.at_host().await),
        (None, _) => (ahead == Some(0), None),
    };
    GitState {
        is_repository: true,
        is_clean: run(&["status", "--porcelain", "--untracked-files=normal"]).await.as_deref() == Some(""),
        files_changed: files_changed(&git, options.base_branch).await,
        branch,
        head,
        ahead,
        has_upstream,
        is_pushed,
        has_pr,
        pr_url: found.as_ref().map(|found| found.url.clone()),
        pr_number: found.as_ref().map(|found| found.number),
        ci_status: found.and_then(|found| found.ci_status).map(str::to_owned),
        host_commit,
    }
}

/// Number of files that differ from the merge base, including uncommitted ones.
async fn files_changed(git: &Git, base: Option<&str>) -> Option<u64> {
    let bases = match base {
        Some(base) => vec![format!("refs/remotes/origin/{base}"), format!("refs/heads/{base}")],
        None => vec!["refs/remotes/origin/HEAD".to_owned()],
    };
    for base in bases {
        let Ok(fork) = git.text(&["merge-base", &base, "HEAD"], GIT_TIMEOUT).await else { continue };
        let changed = git.text(&["diff", "--name-only", &fork], GIT_TIMEOUT).await.ok()?;
        let new = git.text(&["ls-files", "--others", "--exclude-standard"], GIT_TIMEOUT).await.ok()?;
        return Some((changed.lines().count() + new.lines().count()) as u64);
    }
    None
}

/// Runs the test command with a shell in the workspace.
pub async fn run_tests(root: &Path, launcher: &Launcher, command: &str, timeout: Duration) -> Tests {
    let started = Instant::now();
    let run = async {
        // Merge standard error into standard output to keep their order.
        let arguments = ["-c", "exec 2>&1; eval \"$1\"", "sh", command].map(OsString::from);
        let shell = launcher.command(OsStr::new("sh"), arguments, root)?;
        process::run(shell.into(), Vec::new(), timeout, |output| process::read_tail(output, TAIL_BYTES)).await
    };
    let (outcome, tail) = match run.await {
        Ok(finished) => {
            let outcome =
                if finished.code == Some(0) { Outcome::Passed } else { Outcome::Failed(finished.code) };
            (outcome, String::from_utf8_lossy(&finished.output).into_owned())
        }
        Err(Failure::TimedOut(_)) => (Outcome::TimedOut, String::new()),
        Err(Failure::Io(error)) => (Outcome::NotRun(error.to_string()), String::new()),
    };
    Tests { command: command.to_owned(), outcome, tail, duration: started.elapsed() }
}

/// Compares the state with the requirements.
pub fn evaluate(state: &GitState, requirements: &Requirements) -> Validation {
    let mut missing: Vec<(String, String)> = Vec::new();
    let mut add = |error: &str, advice: String| missing.push((error.to_owned(), advice));
    let branch = state.branch.as_deref().unwrap_or("HEAD");
    let needs_git = requirements.clean || requirements.pushed || requirements.pull_request;
    if needs_git && !state.is_repository {
        add("there is no git repository", "Work inside the git repository of the workspace.".to_owned());
    } else {
        if requirements.clean && !state.is_clean {
            let advice =
                "Commit all changes, including new files, or remove files that do not belong to the task.";
            add("there are uncommitted changes", advice.to_owned());
        }
        if requirements.pushed && !state.is_pushed {
            let error = match (&state.branch, state.ahead) {
                (None, _) => "no branch is checked out".to_owned(),
                (_, Some(0)) => "the commits have not reached the repository".to_owned(),
                (_, Some(1)) => "1 commit is not pushed".to_owned(),
                (_, Some(ahead)) => format!("{ahead} commits are not pushed"),
                (_, None) => "the branch is not pushed".to_owned(),
            };
            let advice = match &state.branch {
                Some(branch) => format!("Push with `git push -u origin {branch}`."),
                None => "Check out a branch that contains your commits and push it.".to_owned(),
            };
            add(&error, advice);
        }
        if requirements.pull_request {
            match state.has_pr {
                Some(true) => {}
                Some(false) => {
                    add("there is no pull request", format!("Open a pull request for `{branch}`."));
                }
                None => {
                    let advice = format!(
                        "Make sure that a pull request for `{branch}` exists and that `gh pr view` shows it."
                    );
                    add("the pull request status could not be determined", advice);
                }
            }
            if state.has_pr == Some(true) && state.ci_status.as_deref() == Some("failure") {
                let advice = "Inspect them with `gh pr checks` and fix the failures.".to_owned();
                add("pull request checks are failing", advice);
            }
        }
    }
    if let Some(tests) = &requirements.tests {
        let failure = match &tests.outcome {
            Outcome::Passed => None,
            Outcome::Failed(Some(code)) => Some(format!("failed with exit code {code}")),
            Outcome::Failed(None) => Some("were killed".to_owned()),
            Outcome::TimedOut => Some(format!("did not finish within {} s", tests.duration.as_secs())),
            Outcome::NotRun(reason) => Some(format!("could not be run: {reason}")),
        };
        if let Some(failure) = failure {
            let advice = match tests.tail.trim() {
                "" => format!("Run `{}` and fix the failures.", tests.command),
                tail => {
                    format!("Run `{}` and fix the failures. The output ended with:\n{tail}\n", tests.command)
                }
            };
            add(&format!("the tests {failure}"), advice);
        }
    }
    let sentence = |(error, advice): &(String, String)| {
        let mut characters = error.chars();
        let first = characters.next().map(|character| character.to_ascii_uppercase()).into_iter();
        format!("{}. {advice}", first.chain(characters).collect::<String>())
    };
    let feedback = match missing.as_slice() {
        [] => "All requirements are met.".to_owned(),
        missing => missing.iter().map(sentence).collect::<Vec<_>>().join("\n"),
    };
    let errors: Vec<String> = missing.into_iter().map(|(error, _)| error).collect();
    Validation { passed: errors.is_empty(), feedback, errors }
}

#[cfg(test)]
#[path = "validation_tests.rs"]
mod tests;
