//! Operations, and injected faults: listed one by one, or chosen at random with a seed.

use super::rest::Reply;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Repository,
    Branches,
    Branch,
    CreateBranch,
    DeleteBranch,
    PullRequests,
    CreatePullRequest,
    PullRequest,
    UpdatePullRequest,
    Merge,
    Compare,
    CheckRuns,
    CreateCheckRun,
    UpdateCheckRun,
    Statuses,
    CreateStatus,
    /// List the repositories of a person's token.
    UserRepositories,
    /// List the installations of an App.
    Installations,
    /// List the repositories of an installation.
    InstallationRepositories,
    /// Comment on a pull request as a whole.
    Comment,
    /// Read the log of a job.
    JobLog,
    /// Read reviews, threads and comments (GraphQL).
    Discussion,
    /// Reply to a thread (GraphQL).
    ReplyToThread,
    /// Resolve a thread (GraphQL).
    ResolveThread,
    /// Find the installation of an App.
    Installation,
    /// Create a token of an App.
    CreateToken,
    /// Clone or fetch with git.
    Fetch,
    /// Push with git.
    Push,
}

impl Operation {
    pub(super) fn of(method: &str, path: &[String]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let rest = match path.as_slice() {
            ["user", "repos"] => return (method == "GET").then_some(Self::UserRepositories),
            ["app", "installations"] => return (method == "GET").then_some(Self::Installations),
            ["installation", "repositories"] => {
                return (method == "GET").then_some(Self::InstallationRepositories);
            }
            ["app", "installations", _, "access_tokens"] => {
                return (method == "POST").then_some(Self::CreateToken);
            }
            ["repos", _, _, rest @ ..] => rest,
            _ => return None,
        };
        match (method, rest) {
            ("GET", []) => Some(Self::Repository),
            ("GET", ["installation"]) => Some(Self::Installation),
            ("GET", ["branches"]) => Some(Self::Branches),
            ("GET", ["git", "ref", "heads", _, ..]) => Some(Self::Branch),
            ("POST", ["git", "refs"]) => Some(Self::CreateBranch),
            ("DELETE", ["git", "refs", "heads", _, ..]) => Some(Self::DeleteBranch),
            ("GET", ["pulls"]) => Some(Self::PullRequests),
            ("POST", ["pulls"]) => Some(Self::CreatePullRequest),
            ("GET", ["pulls", _]) => Some(Self::PullRequest),
            ("PATCH", ["pulls", _]) => Some(Self::UpdatePullRequest),
            ("PUT", ["pulls", _, "merge"]) => Some(Self::Merge),
            ("GET", ["compare", _, ..]) => Some(Self::Compare),
            ("GET", ["commits", _, "check-runs"]) => Some(Self::CheckRuns),
            ("POST", ["check-runs"]) => Some(Self::CreateCheckRun),
            ("PATCH", ["check-runs", _]) => Some(Self::UpdateCheckRun),
            ("GET", ["commits", _, "status"]) => Some(Self::Statuses),
            ("POST", ["statuses", _]) => Some(Self::CreateStatus),
            ("POST", ["issues", _, "comments"]) => Some(Self::Comment),
            ("GET", ["actions", "jobs", _, "logs"]) => Some(Self::JobLog),
            _ => None,
        }
    }

    /// By the text of the query.
    pub(super) fn of_graphql(body: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(body);
        let contains = |name: &str| text.contains(name);
        if contains("addPullRequestReviewThreadReply") {
            Some(Self::ReplyToThread)
        } else if contains("resolveReviewThread") {
            Some(Self::ResolveThread)
        } else {
            contains("reviewThreads").then_some(Self::Discussion)
        }
    }

    pub(super) fn is_graphql(self) -> bool {
        matches!(self, Self::Discussion | Self::ReplyToThread | Self::ResolveThread)
    }

    pub(super) fn of_git(path: &str, query: &str) -> Option<Self> {
        if !path.contains(".git/") {
            return None;
        }
        let is_push = path.ends_with("/git-receive-pack") || query.contains("git-receive-pack");
        Some(if is_push { Self::Push } else { Self::Fetch })
    }

    pub(super) fn is_git(self) -> bool {
        matches!(self, Self::Fetch | Self::Push)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 403 with `Retry-After`, as for too many changes in a short time; the operation is not executed.
    RateLimited { secs: u64 },
    /// 403 because the requests of an hour are used up; the operation is not executed.
    UsedUp { reset_after_secs: i64 },
    /// The operation is not executed. `{credential}` in the message is replaced by that of the request.
    Rejected { status: u16, message: String },
    /// 502; the operation is not executed.
    Error,
    /// 502, although the operation is executed.
    ErrorAfterExecution,
    /// The connection breaks; the operation is not executed.
    RequestLost,
    /// The operation is executed, then the connection breaks.
    ResponseLost,
    /// An empty list, as before something was created at the same time.
    EmptyList,
    /// An empty list that continues at this URL.
    NextPage { url: String },
    /// The connection stays open without a response; the operation is not executed.
    NoResponse,
    /// No fault, before a listed fault of a later request.
    None,
}

impl Fault {
    pub(super) fn is_executed(&self) -> bool {
        matches!(self, Self::ErrorAfterExecution | Self::ResponseLost)
    }

    /// The response; `None` if the connection breaks.
    pub(super) fn reply(self, credential: &str, now_secs: i64) -> Option<Reply> {
        match self {
            Self::RateLimited { secs } => {
                let reply = Reply::refusal(403, "You have exceeded a secondary rate limit.");
                Some(reply.header("retry-after", secs))
            }
            Self::UsedUp { reset_after_secs } => {
                let reply = Reply::refusal(403, "API rate limit exceeded for installation ID 1.");
                let reply = reply.header("x-ratelimit-remaining", 0);
                Some(reply.header("x-ratelimit-reset", now_secs + reset_after_secs))
            }
            Self::Rejected { status, message } => {
                Some(Reply::refusal(status, &message.replace("{credential}", credential)))
            }
            Self::Error | Self::ErrorAfterExecution => Some(Reply::refusal(502, "Server Error")),
            Self::EmptyList => Some(Reply::new(200, json!([]))),
            Self::NextPage { url } => {
                Some(Reply::new(200, json!([])).header("link", format!("<{url}>; rel=\"next\"")))
            }
            Self::RequestLost | Self::ResponseLost | Self::NoResponse | Self::None => None,
        }
    }
}

/// Which requests fail.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    listed: Vec<(Operation, Fault)>,
    /// Seed, and percentage of requests.
    random: Option<(u64, u32)>,
}

impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    /// The next request for `operation` has this fault. Can be called several times for the same operation.
    #[must_use]
    pub fn once(self, operation: Operation, fault: Fault) -> Self {
        self.times(1, operation, fault)
    }

    /// The next `count` requests for `operation` have this fault.
    #[must_use]
    pub fn times(mut self, count: usize, operation: Operation, fault: Fault) -> Self {
        self.listed.extend((0..count).map(|_| (operation, fault.clone())));
        self
    }

    /// Random faults in `percent` of the requests. The same seed and the same requests have the same faults.
    #[must_use]
    pub fn at_random(mut self, seed: u64, percent: u32) -> Self {
        self.random = Some((seed, percent));
        self
    }
}

/// Chooses the fault of each request.
#[derive(Debug)]
pub(super) struct Injector {
    faults: Faults,
    random: StdRng,
}

impl Injector {
    pub(super) fn new(faults: Faults) -> Self {
        let random = StdRng::seed_from_u64(faults.random.map_or(0, |(seed, _)| seed));
        Self { faults, random }
    }

    pub(super) fn next(&mut self, operation: Operation) -> Option<Fault> {
        if let Some(index) = self.faults.listed.iter().position(|(listed, _)| *listed == operation) {
            return Some(self.faults.listed.remove(index).1).filter(|fault| *fault != Fault::None);
        }
        let (_, percent) = self.faults.random?;
        if self.random.random_range(0..100) >= percent {
            return None;
        }
        Some(match self.random.random_range(0..6) {
            // The limits of git are not those of the API. There, 403 means that the token may not do it.
            0 | 1 if operation.is_git() => {
                Fault::Rejected { status: 429, message: "Too many requests.".to_owned() }
            }
            0 => Fault::RateLimited { secs: self.random.random_range(0..3) },
            1 => Fault::UsedUp { reset_after_secs: self.random.random_range(1..3) },
            2 => Fault::Error,
            3 => Fault::ErrorAfterExecution,
            4 => Fault::RequestLost,
            _ => Fault::ResponseLost,
        })
    }
}
