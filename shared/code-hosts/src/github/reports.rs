//! Check runs and commit statuses.

use super::GitHub;
use super::http::{Call, in_query};
use crate::{Check, CheckState, Failure, Reason, Status};
use reqwest::Method;
use serde_json::{Value, json};

/// GitHub's limit for the description of a commit status.
const MAX_DESCRIPTION_CHARS: usize = 140;

/// What was reported about a commit, as GitHub returns it.
#[derive(Debug)]
pub(super) struct Reports {
    pub runs: Vec<Value>,
    pub statuses: Vec<Value>,
}

impl GitHub {
    pub(super) async fn report(&self, commit: &str, status: &Status) -> Result<(), Failure> {
        match self.http.app_id() {
            Some(app_id) => self.report_check_run(app_id, commit, status).await,
            None => self.report_commit_status(commit, status).await,
        }
    }

    /// Only Apps can create check runs.
    async fn report_commit_status(&self, commit: &str, status: &Status) -> Result<(), Failure> {
        let state = match status.state {
            CheckState::Pending => "pending",
            CheckState::Failure => "failure",
            // There is no neutral status.
            CheckState::Success | CheckState::Neutral => "success",
        };
        let description: String = status.summary.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let body = json!({
            "state": state, "context": status.name, "description": description, "target_url": status.url,
        });
        let (path, doing) = (self.path(&format!("/statuses/{commit}")), "reporting a commit status");
        let sent = self.http.send(&Call::new(Method::POST, &path, doing).body(&body)).await;
        sent.map(drop).map_err(|error| missing_commit(error, commit))
    }

    async fn report_check_run(&self, app_id: &str, commit: &str, status: &Status) -> Result<(), Failure> {
        let mut body = json!({
            "name": status.name, "output": {"title": status.summary, "summary": status.summary},
        });
        if let Some(url) = &status.url {
            body["details_url"] = json!(url);
        }
        let conclusion = match status.state {
            CheckState::Pending => None,
            CheckState::Success => Some("success"),
            CheckState::Failure => Some("failure"),
            CheckState::Neutral => Some("neutral"),
        };
        body["status"] = json!(if conclusion.is_some() { "completed" } else { "in_progress" });
        if let Some(conclusion) = conclusion {
            body["conclusion"] = json!(conclusion);
        }
        let doing = "reporting a check run";
        let sent = if let Some(id) = self.own_check_run(app_id, commit, status).await? {
            let path = self.path(&format!("/check-runs/{id}"));
            self.http.send(&Call::new(Method::PATCH, &path, doing).body(&body)).await
        } else {
            body["head_sha"] = json!(commit);
            let path = self.path("/check-runs");
            self.http.send(&Call::new(Method::POST, &path, doing).body(&body)).await
        };
        sent.map(drop).map_err(|error| missing_commit(error, commit))
    }

    /// The check run to update. A completed one is not reopened: a new one replaces it.
    async fn own_check_run(
        &self,
        app_id: &str,
        commit: &str,
        status: &Status,
    ) -> Result<Option<u64>, Failure> {
        let is_own = |run: &&Value| {
            let app = &run["app"];
            let is_app = app["id"].as_u64().is_some_and(|id| id.to_string() == app_id)
                || app["client_id"].as_str() == Some(app_id);
            let is_open = status.state != CheckState::Pending || run["status"] != json!("completed");
            is_app && is_open && run["name"] == json!(status.name)
        };
        let name = in_query(&status.name);
        let path = format!("/commits/{commit}/check-runs?filter=latest&per_page=100&check_name={name}");
        let runs = self.check_runs(&path, commit).await?;
        Ok(runs.iter().find(is_own).and_then(|run| run["id"].as_u64()))
    }

    pub(super) async fn list_checks(&self, commit: &str) -> Result<Vec<Check>, Failure> {
        let Reports { runs, statuses } = self.reports(commit).await?;
        let mut checks: Vec<Check> =
            runs.iter().filter_map(check_run).chain(statuses.iter().filter_map(commit_status)).collect();
        checks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(checks)
    }

    pub(super) async fn reports(&self, commit: &str) -> Result<Reports, Failure> {
        let path = format!("/commits/{commit}/check-runs?filter=latest&per_page=100");
        let runs = self.check_runs(&path, commit).await?;
        let path = self.path(&format!("/commits/{commit}/status?per_page=100"));
        let statuses =
            self.http.pages(&path, "listing the commit statuses", |mut page| page["statuses"].take()).await;
        let statuses = statuses.map_err(|error| missing_commit(error, commit))?;
        Ok(Reports { runs, statuses })
    }

    async fn check_runs(&self, path: &str, commit: &str) -> Result<Vec<Value>, Failure> {
        let list = |mut page: Value| page["check_runs"].take();
        let found = self.http.pages(&self.path(path), "listing the check runs", list).await;
        found.map_err(|error| missing_commit(error, commit))
    }
}

/// GitHub responds 422 if it does not know the commit.
fn missing_commit(error: super::http::RequestError, commit: &str) -> Failure {
    if error.says("no commit found") {
        let failure = error.because(Reason::NotFound);
        return Failure { message: format!("{} ({commit})", failure.message), ..failure };
    }
    error.into()
}

pub(super) fn check_run(run: &Value) -> Option<Check> {
    let state = match run["conclusion"].as_str() {
        _ if run["status"] != json!("completed") => CheckState::Pending,
        Some("success") => CheckState::Success,
        Some("failure" | "timed_out" | "action_required" | "startup_failure") => CheckState::Failure,
        _ => CheckState::Neutral,
    };
    let url = run["details_url"].as_str().or_else(|| run["html_url"].as_str());
    Some(check(run["name"].as_str()?, state, run["output"]["title"].as_str(), url))
}

pub(super) fn commit_status(status: &Value) -> Option<Check> {
    let state = match status["state"].as_str()? {
        "success" => CheckState::Success,
        "pending" => CheckState::Pending,
        _ => CheckState::Failure,
    };
    let context = status["context"].as_str()?;
    Some(check(context, state, status["description"].as_str(), status["target_url"].as_str()))
}

fn check(name: &str, state: CheckState, summary: Option<&str>, url: Option<&str>) -> Check {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    Check { name: name.to_owned(), state, summary: text(summary), url: text(url) }
}
