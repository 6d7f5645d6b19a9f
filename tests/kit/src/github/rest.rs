//! Requests about repositories, by operation.

use super::access::Token;
use super::faults::Operation;
use super::git::Git;
use super::pulls::Pull;
use super::reports::{CheckRun, CommitStatus};
use super::reviews::Discussion;
use super::{API, LOGS, Options};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// A parsed request.
#[derive(Debug)]
pub(super) struct Call {
    pub operation: Operation,
    /// Decoded segments below the API.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub body: Value,
    pub now_secs: i64,
}

impl Call {
    /// `acme/shop`.
    pub(super) fn repository(&self) -> String {
        self.path[1..3].join("/")
    }

    /// Everything from this segment on: names of branches contain slashes.
    pub(super) fn rest(&self, index: usize) -> String {
        self.path[index..].join("/")
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub status: u16,
    /// Null for none.
    pub body: Value,
    pub headers: Vec<(&'static str, String)>,
}

impl Reply {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, headers: Vec::new() }
    }

    pub(super) fn refusal(status: u16, message: &str) -> Self {
        Self::new(status, json!({"message": message, "documentation_url": "https://docs.github.com/rest"}))
    }

    /// A refusal that names a field.
    pub(super) fn invalid(resource: &str, field: &str, code: &str) -> Self {
        let errors = json!([{"resource": resource, "field": field, "code": code}]);
        Self::new(422, json!({"message": "Validation Failed", "errors": errors}))
    }

    /// A refusal with a sentence of its own.
    pub(super) fn custom(resource: &str, message: &str) -> Self {
        let errors = json!([{"resource": resource, "code": "custom", "message": message}]);
        Self::new(422, json!({"message": "Validation Failed", "errors": errors}))
    }

    /// With a tag of its content; without the content if the caller knows it.
    pub(super) fn unless(self, known: &str) -> Self {
        if self.status != 200 {
            return self;
        }
        let mut hasher = DefaultHasher::new();
        self.body.to_string().hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let reply = if known == etag { Self::new(304, Value::Null) } else { self };
        reply.header("etag", etag)
    }

    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// Settings of a repository that people make in the browser.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub archived: bool,
    /// The repository was renamed: the API redirects to this URL.
    pub moved_to: Option<String>,
    /// Why no pull request may be merged, such as a missing review.
    pub blocked: Option<String>,
    /// Methods that are turned off: `squash`.
    pub disabled_methods: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Repositories {
    by_name: BTreeMap<String, Repository>,
    /// Number of ids of threads and comments.
    ids: u64,
}

#[derive(Debug)]
pub(super) struct Repository {
    pub name: String,
    pub git: Git,
    pub settings: Settings,
    pub pulls: Vec<Pull>,
    pub check_runs: Vec<CheckRun>,
    pub statuses: Vec<CommitStatus>,
    /// By the number of the pull request.
    pub discussions: BTreeMap<u64, Discussion>,
}

impl Repositories {
    pub(super) fn add(&mut self, name: &str, directory: PathBuf) {
        let repository = Repository {
            name: name.to_owned(),
            git: Git::new(directory),
            settings: Settings::default(),
            pulls: Vec::new(),
            check_runs: Vec::new(),
            statuses: Vec::new(),
            discussions: BTreeMap::new(),
        };
        self.by_name.insert(name.to_owned(), repository);
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Repository> {
        self.by_name.values_mut()
    }

    pub(super) fn new_id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}_{}", self.ids)
    }

    pub(super) fn log_of_job(&self, job: &str) -> Option<String> {
        self.by_name.values().find_map(|repository| repository.log_of_job(job))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Repository> {
        self.by_name.get_mut(name)
    }

    pub(super) fn perform(&mut self, token: &Token, call: &Call, options: &Options, url: &str) -> Reply {
        let of_app = match call.operation {
            Operation::UserRepositories => Some(false),
            Operation::InstallationRepositories => Some(true),
            _ => None,
        };
        if let Some(of_app) = of_app {
            return self.list(token, of_app, call, options, url);
        }
        if call.operation.is_graphql() {
            return self.perform_graphql(token, call);
        }
        let name = call.repository();
        // What the token may not see does not exist.
        let Some(repository) = self.get_mut(&name).filter(|_| token.sees(&name)) else {
            return Reply::refusal(404, "Not Found");
        };
        if let Some(moved_to) = &repository.settings.moved_to {
            return Reply::refusal(301, "Moved Permanently").header("location", moved_to);
        }
        match token.check(call.operation) {
            Ok(()) if call.operation == Operation::Comment => self.create_comment(token, call),
            Ok(()) => repository.perform(token, call, options, url),
            Err(refusal) => refusal,
        }
    }
}

impl Repositories {
    /// What the token sees: the list of a person, or that of an installation.
    fn list(&self, token: &Token, of_app: bool, call: &Call, options: &Options, url: &str) -> Reply {
        if token.app_id().is_some() != of_app {
            return Reply::refusal(403, "Resource not accessible by this token");
        }
        let seen = self.by_name.values().filter(|repository| token.sees(&repository.name));
        let described = seen.map(|repository| match repository.describe(token, url) {
            // GitHub does not describe a person to an App.
            mut found if of_app => {
                found["permissions"]["push"] = json!(true);
                found
            }
            found => found,
        });
        let path = if of_app { "installation/repositories" } else { "user/repos" };
        let found = page(described.collect(), call, options.page, &format!("{url}{API}{path}"));
        if !of_app {
            return found;
        }
        Reply { body: json!({"total_count": self.by_name.len(), "repositories": found.body}), ..found }
    }
}

impl Repository {
    fn perform(&mut self, token: &Token, call: &Call, options: &Options, url: &str) -> Reply {
        match call.operation {
            Operation::Repository => Reply::new(200, self.describe(token, url)),
            Operation::Branches => {
                let branches = self.branch_list();
                let path = format!("repos/{}/branches", self.name);
                page(branches, call, options.page, &format!("{url}{API}{path}"))
            }
            Operation::Branch => self.branch(&call.rest(6)),
            Operation::CreateBranch => self.create_branch(call),
            Operation::DeleteBranch => self.delete_branch(&call.rest(6)),
            Operation::PullRequests => {
                let found = self.list_pulls(call, url);
                let path = format!("repos/{}/pulls", self.name);
                page(found, call, options.page, &format!("{url}{API}{path}"))
            }
            Operation::CreatePullRequest => self.create_pull(call, options.pending_mergeable, url),
            Operation::PullRequest => self.read_pull(&call.path[4], url),
            Operation::UpdatePullRequest => self.update_pull(call, url),
            Operation::Merge => self.merge_pull(call),
            Operation::Compare => self.compare(&call.rest(4)),
            Operation::CheckRuns => self.list_check_runs(call),
            Operation::CreateCheckRun => self.create_check_run(call, token.app_id().unwrap_or_default()),
            Operation::UpdateCheckRun => self.update_check_run(call, token.app_id().unwrap_or_default()),
            Operation::Statuses => self.list_statuses(&call.path[4]),
            Operation::CreateStatus => self.create_status(call),
            Operation::JobLog => match self.log_of_job(&call.path[5]) {
                Some(_) => {
                    Reply::new(302, Value::Null).header("location", format!("{url}{LOGS}{}", call.path[5]))
                }
                None => Reply::refusal(404, "Not Found"),
            },
            Operation::UserRepositories
            | Operation::Installations
            | Operation::InstallationRepositories
            | Operation::Installation
            | Operation::CreateToken
            | Operation::Fetch
            | Operation::Push
            | Operation::Comment
            | Operation::Discussion
            | Operation::ReplyToThread
            | Operation::ResolveThread => Reply::refusal(404, "Not Found"),
        }
    }

    fn describe(&self, token: &Token, url: &str) -> Value {
        // GitHub describes the user here. An App is none.
        let push = token.may_push() && token.app_id().is_none();
        json!({
            "full_name": self.name,
            "clone_url": format!("{url}/{}.git", self.name),
            "description": null,
            "default_branch": self.git.default_branch(),
            "archived": self.settings.archived,
            "disabled": false,
            "permissions": {"pull": true, "push": push, "admin": false},
        })
    }
}

/// A page of a list, with a link to the next one.
fn page(entries: Vec<Value>, call: &Call, limit: usize, url: &str) -> Reply {
    let number = |name: &str| call.query.get(name).and_then(|text| text.parse::<usize>().ok());
    let (per_page, current) =
        (number("per_page").unwrap_or(30).min(limit).max(1), number("page").unwrap_or(1).max(1));
    let count = entries.len();
    let shown: Vec<Value> = entries.into_iter().skip((current - 1) * per_page).take(per_page).collect();
    let reply = Reply::new(200, json!(shown));
    if count <= current * per_page {
        return reply;
    }
    let mut next = reqwest::Url::parse(url).expect("the URL of this server");
    let others = call.query.iter().filter(|(name, _)| *name != "page");
    next.query_pairs_mut().extend_pairs(others).append_pair("page", &(current + 1).to_string());
    reply.header("link", format!("<{next}>; rel=\"next\", <{url}?page=1>; rel=\"first\""))
}
