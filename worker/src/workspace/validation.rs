//! Whether an agent that says it is done is done: what git and the pull request say, and what is still to do.
//!
//! Looking ([`git_state`], [`run_tests`]) and judging ([`judge`]) are apart. What could not be found out does not count
//! as done.

use super::git::Git;
use super::process::{self, Failure};
use super::pull_request::{self, PullRequest};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

/// How long one question to git may take.
const GIT_DEADLINE: Duration = Duration::from_secs(60);
/// What is read of the end of the tests' output.
const TAIL_BYTES: usize = 4 * 1024;

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The branch that the work is to be merged into. The default branch of `origin` if there is none.
    pub base_branch: Option<&'a str>,
    /// GitHub's command line. It answers for whom it is logged in.
    pub gh: &'a Path,
}

/// What git and the pull request say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitState {
    /// Whether there is a repository. If not, nothing else means anything.
    pub is_repository: bool,
    /// Whether everything is committed, new files too.
    pub is_clean: bool,
    /// The branch, unless the head is detached.
    pub branch: Option<String>,
    /// The commit, if there is one.
    pub head: Option<String>,
    /// Commits that are here and not there, if there is a there.
    pub ahead: Option<u64>,
    /// Whether the branch follows one of a remote.
    pub has_upstream: bool,
    /// Whether the remote has all commits. A branch that the remote does not have is not pushed.
    pub is_pushed: bool,
    /// Whether there is a pull request, if that could be found out.
    pub has_pr: Option<bool>,
    /// Its address.
    pub pr_url: Option<String>,
    /// Its number.
    pub pr_number: Option<u64>,
    /// `success`, `failure` or `pending`, if it has checks.
    pub ci_status: Option<String>,
    /// How many files differ from the base branch, if there is one.
    pub files_changed: Option<u64>,
}

/// What must be so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Everything is committed.
    pub clean: bool,
    /// Everything is pushed.
    pub pushed: bool,
    /// There is a pull request.
    pub pull_request: bool,
    /// The tests pass: how they went, if there is a command for them.
    pub tests: Option<Tests>,
}

/// How the tests went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tests {
    /// What was run.
    pub command: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The end of what it wrote.
    pub tail: String,
    /// How long it took.
    pub duration: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With zero.
    Passed,
    /// With another code, or without one by a signal.
    Failed(Option<i32>),
    /// It took too long and was killed.
    TimedOut,
    /// It could not be run.
    NotRun(String),
}

/// Whether it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// It is.
    pub passed: bool,
    /// What the agent is told: what to do, in sentences.
    pub feedback: String,
    /// What is missing, one by one.
    pub errors: Vec<String>,
}

/// Looks.
pub async fn git_state(look: Look<'_>) -> GitState {
    let git = Git::new(look.root);
    let ask = async |arguments: &[&str]| git.text(arguments, GIT_DEADLINE).await.ok();
    if ask(&["rev-parse", "--is-inside-work-tree"]).await.as_deref() != Some("true") {
        return GitState::default();
    }
    let head = ask(&["rev-parse", "--verify", "--quiet", "HEAD"]).await;
    let branch = ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
    let upstream = ask(&["rev-parse", "--verify", "--quiet", "--symbolic-full-name", "@{upstream}"]).await;
    let has_upstream = upstream.is_some();
    // Whoever pushes without `-u` has pushed too.
    let there = match (upstream, &branch) {
        (None, Some(branch)) => {
            let there = format!("refs/remotes/origin/{branch}");
            ask(&["show-ref", "--verify", "--quiet", &there]).await.map(|_| there)
        }
        (upstream, _) => upstream,
    };
    let ahead = match &there {
        Some(there) => ask(&["rev-list", "--count", &format!("{there}..HEAD")]).await,
        None => None,
    };
    let ahead = ahead.and_then(|count| count.parse().ok());
    let pull_request = match &branch {
        Some(_) => pull_request::find(look.gh, look.root).await,
        None => None,
    };
    let (has_pr, found) = match pull_request {
        Some(PullRequest::Found(found)) => (Some(true), Some(found)),
        Some(PullRequest::None) => (Some(false), None),
        None => (None, None),
    };
    GitState {
        is_repository: true,
        is_clean: ask(&["status", "--porcelain", "--untracked-files=normal"]).await.as_deref() == Some(""),
        files_changed: files_changed(&git, look.base_branch).await,
        branch,
        head,
        ahead,
        has_upstream,
        is_pushed: ahead == Some(0),
        has_pr,
        pr_url: found.as_ref().map(|found| found.url.clone()),
        pr_number: found.as_ref().map(|found| found.number),
        ci_status: found.and_then(|found| found.ci_status).map(str::to_owned),
    }
}

/// Files that differ from where the branch left its base, with those that are not committed.
async fn files_changed(git: &Git, base: Option<&str>) -> Option<u64> {
    let bases = match base {
        Some(base) => vec![format!("refs/remotes/origin/{base}"), format!("refs/heads/{base}")],
        None => vec!["refs/remotes/origin/HEAD".to_owned()],
    };
    for base in bases {
        let Ok(fork) = git.text(&["merge-base", &base, "HEAD"], GIT_DEADLINE).await else { continue };
        let changed = git.text(&["diff", "--name-only", &fork], GIT_DEADLINE).await.ok()?;
        let new = git.text(&["ls-files", "--others", "--exclude-standard"], GIT_DEADLINE).await.ok()?;
        return Some((changed.lines().count() + new.lines().count()) as u64);
    }
    None
}

/// Runs the tests' command in the workspace, as a shell would.
pub async fn run_tests(root: &Path, command: &str, deadline: Duration) -> Tests {
    let begun = Instant::now();
    let mut shell = Command::new("sh");
    // Both outputs in one, in the order in which they were written.
    shell.args(["-c", "exec 2>&1; eval \"$1\"", "sh", command]).current_dir(root);
    let run = process::run(shell, Vec::new(), deadline, |output| process::last(output, TAIL_BYTES)).await;
    let (outcome, tail) = match run {
        Ok(finished) => {
            let outcome =
                if finished.code == Some(0) { Outcome::Passed } else { Outcome::Failed(finished.code) };
            (outcome, String::from_utf8_lossy(&finished.output).into_owned())
        }
        Err(Failure::TimedOut(_)) => (Outcome::TimedOut, String::new()),
        Err(Failure::Io(error)) => (Outcome::NotRun(error.to_string()), String::new()),
    };
    Tests { command: command.to_owned(), outcome, tail, duration: begun.elapsed() }
}

/// Judges.
pub fn judge(state: &GitState, requirements: &Requirements) -> Verdict {
    let mut missing: Vec<(String, String)> = Vec::new();
    let mut miss = |error: &str, advice: String| missing.push((error.to_owned(), advice));
    let branch = state.branch.as_deref().unwrap_or("HEAD");
    let of_git = requirements.clean || requirements.pushed || requirements.pull_request;
    if of_git && !state.is_repository {
        miss("there is no git repository", "Work inside of the git repository of the workspace.".to_owned());
    } else {
        if requirements.clean && !state.is_clean {
            let advice = "Commit all changes, new files too, or remove what does not belong to the work.";
            miss("there are changes that are not committed", advice.to_owned());
        }
        if requirements.pushed && !state.is_pushed {
            let error = match (&state.branch, state.ahead) {
                (None, _) => "no branch is checked out".to_owned(),
                (_, Some(1)) => "1 commit is not pushed".to_owned(),
                (_, Some(ahead)) => format!("{ahead} commits are not pushed"),
                (_, None) => "the branch is not pushed".to_owned(),
            };
            let advice = match &state.branch {
                Some(branch) => format!("Push with `git push -u origin {branch}`."),
                None => "Check out a branch that holds your commits, and push it.".to_owned(),
            };
            miss(&error, advice);
        }
        if requirements.pull_request {
            match state.has_pr {
                Some(true) => {}
                Some(false) => {
                    miss("there is no pull request", format!("Open a pull request for `{branch}`."));
                }
                None => {
                    let advice = format!(
                        "Make sure that there is a pull request for `{branch}` and that `gh pr view` shows it."
                    );
                    miss("whether there is a pull request could not be found out", advice);
                }
            }
            if state.has_pr == Some(true) && state.ci_status.as_deref() == Some("failure") {
                let advice = "Look at them with `gh pr checks`, and repair what fails.".to_owned();
                miss("checks of the pull request fail", advice);
            }
        }
    }
    if let Some(tests) = &requirements.tests {
        let how = match &tests.outcome {
            Outcome::Passed => None,
            Outcome::Failed(Some(code)) => Some(format!("failed with exit code {code}")),
            Outcome::Failed(None) => Some("were killed".to_owned()),
            Outcome::TimedOut => Some(format!("did not end within {} s", tests.duration.as_secs())),
            Outcome::NotRun(reason) => Some(format!("could not be run: {reason}")),
        };
        if let Some(how) = how {
            let advice = match tests.tail.trim() {
                "" => format!("Run `{}` and repair what is wrong.", tests.command),
                tail => format!("Run `{}` and repair what is wrong. It ended with:\n{tail}\n", tests.command),
            };
            miss(&format!("the tests {how}"), advice);
        }
    }
    let sentence = |(error, advice): &(String, String)| {
        let mut letters = error.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
        format!("{}. {advice}", first.chain(letters).collect::<String>())
    };
    let feedback = match missing.as_slice() {
        [] => "Everything that was asked for is there.".to_owned(),
        missing => missing.iter().map(sentence).collect::<Vec<_>>().join("\n"),
    };
    let errors: Vec<String> = missing.into_iter().map(|(error, _)| error).collect();
    Verdict { passed: errors.is_empty(), feedback, errors }
}

#[cfg(test)]
#[path = "validation_tests.rs"]
mod tests;
