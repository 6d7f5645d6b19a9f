//! Check runs and commit statuses.

use super::rest::{Call, Reply, Repository};
use serde_json::{Value, json};

/// The App of check runs that a test adds.
const CI_APP: u64 = 1;

#[derive(Debug, Clone)]
pub(super) struct CheckRun {
    id: u64,
    app: u64,
    commit: String,
    name: String,
    /// What the API returns, as it was sent.
    fields: Value,
    /// If it is a job of GitHub Actions.
    log: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct CommitStatus {
    commit: String,
    context: String,
    fields: Value,
}

impl Repository {
    pub(super) fn add_check_run(&mut self, commit: &str, name: &str, state: &str) {
        let mut fields = json!({"status": "completed", "conclusion": state, "output": {"title": state}});
        if state == "in_progress" {
            fields = json!({"status": state, "conclusion": null});
        }
        let id = self.next_check_run();
        let (commit, name) = (commit.to_owned(), name.to_owned());
        self.check_runs.push(CheckRun { id, app: CI_APP, commit, name, fields, log: None });
    }

    pub(super) fn add_failed_job(&mut self, commit: &str, name: &str, log: &str) {
        let fields = json!({"status": "completed", "conclusion": "failure", "output": {"title": null}});
        let (id, log) = (self.next_check_run(), Some(log.to_owned()));
        let (commit, name) = (commit.to_owned(), name.to_owned());
        self.check_runs.push(CheckRun { id, app: CI_APP, commit, name, fields, log });
    }

    pub(super) fn log_of_job(&self, job: &str) -> Option<String> {
        self.check_runs.iter().find(|run| run.id.to_string() == job)?.log.clone()
    }

    pub(super) fn list_check_runs(&self, call: &Call) -> Reply {
        let Some(commit) = self.git.commit(&call.path[4]) else { return no_commit(&call.path[4]) };
        let name = call.query.get("check_name");
        let of_commit = |run: &&CheckRun| run.commit == commit && name.is_none_or(|name| *name == run.name);
        // The latest of each App and name.
        let is_latest = |run: &&CheckRun| {
            !self.check_runs.iter().any(|other| {
                other.id > run.id
                    && (other.app, &other.name, &other.commit) == (run.app, &run.name, &run.commit)
            })
        };
        let runs: Vec<Value> =
            self.check_runs.iter().filter(of_commit).filter(is_latest).map(CheckRun::show).collect();
        Reply::new(200, json!({"total_count": runs.len(), "check_runs": runs}))
    }

    pub(super) fn create_check_run(&mut self, call: &Call, app: u64) -> Reply {
        let Some(commit) = self.git.commit(call.text("head_sha")) else {
            return no_commit(call.text("head_sha"));
        };
        if let Some(refusal) = invalid_run(&call.body) {
            return refusal;
        }
        let (id, name) = (self.next_check_run(), call.text("name").to_owned());
        let run = CheckRun { id, app, commit, name, fields: call.body.clone(), log: None };
        let shown = run.show();
        self.check_runs.push(run);
        Reply::new(201, shown)
    }

    pub(super) fn update_check_run(&mut self, call: &Call, app: u64) -> Reply {
        let is_wanted = |run: &&mut CheckRun| run.id.to_string() == call.path[4];
        let Some(run) = self.check_runs.iter_mut().find(is_wanted) else {
            return Reply::refusal(404, "Not Found");
        };
        if run.app != app {
            return Reply::refusal(
                403,
                "Invalid app_id - check run can only be modified by the GitHub App that created it.",
            );
        }
        if let Some(refusal) = invalid_run(&call.body) {
            return refusal;
        }
        run.fields = call.body.clone();
        Reply::new(200, run.show())
    }

    pub(super) fn list_statuses(&self, commit: &str) -> Reply {
        let Some(commit) = self.git.commit(commit) else { return no_commit(commit) };
        let mut found: Vec<&CommitStatus> = Vec::new();
        for status in self.statuses.iter().rev().filter(|status| status.commit == commit) {
            if !found.iter().any(|later| later.context == status.context) {
                found.push(status);
            }
        }
        let statuses: Vec<&Value> = found.iter().map(|status| &status.fields).collect();
        Reply::new(200, json!({"sha": commit, "total_count": statuses.len(), "statuses": statuses}))
    }

    pub(super) fn create_status(&mut self, call: &Call) -> Reply {
        let Some(commit) = self.git.commit(&call.path[4]) else { return no_commit(&call.path[4]) };
        if !["pending", "success", "failure", "error"].contains(&call.text("state")) {
            return Reply::invalid("Status", "state", "invalid");
        }
        if call.text("description").chars().count() > 140 {
            return Reply::custom("Status", "description is too long (maximum is 140 characters)");
        }
        let context = call.text("context").to_owned();
        self.statuses.push(CommitStatus { commit, context, fields: call.body.clone() });
        Reply::new(201, call.body.clone())
    }

    fn next_check_run(&self) -> u64 {
        self.check_runs.last().map_or(1, |last| last.id + 1)
    }
}

impl CheckRun {
    fn show(&self) -> Value {
        let mut shown = self.fields.clone();
        shown["id"] = json!(self.id);
        shown["name"] = json!(self.name);
        shown["head_sha"] = json!(self.commit);
        let slug = if self.log.is_some() { "github-actions" } else { "ci" };
        shown["app"] = json!({"id": self.app, "slug": slug});
        shown
    }
}

/// A completed check run has a conclusion, and only it has one.
fn invalid_run(body: &Value) -> Option<Reply> {
    if body["name"].as_str().is_none_or(str::is_empty) {
        return Some(Reply::invalid("CheckRun", "name", "missing_field"));
    }
    let is_completed = body["status"] == json!("completed");
    (is_completed != body["conclusion"].is_string())
        .then(|| Reply::invalid("CheckRun", "conclusion", "invalid"))
}

fn no_commit(commit: &str) -> Reply {
    Reply::refusal(422, &format!("No commit found for SHA: {commit}"))
}
