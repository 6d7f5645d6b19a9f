//! Pull requests.

use super::GitHub;
use super::branches::unexpected;
use super::http::{Call, RequestError, in_query};
use crate::{Failure, Merge, MergeMethod, Merged, NewPullRequest, PullRequest, PullRequestState, Reason};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How often `mergeable` is read again: after one, two and four times the delay.
const MERGEABLE_ATTEMPTS: u32 = 3;

impl GitHub {
    pub(super) async fn create_or_update(&self, request: &NewPullRequest) -> Result<PullRequest, Failure> {
        if let Some(number) = self.open_pull_request(&request.branch).await? {
            return self.update(number, request).await;
        }
        let error = match self.create(request).await {
            Ok(body) => return pull_request(&body),
            Err(error) => error,
        };
        if error.says("already exists")
            && let Some(number) = self.open_pull_request(&request.branch).await?
        {
            return self.update(number, request).await;
        }
        let reason = match error.failure.reason {
            _ if error.says("no commits between") => Reason::NothingToPropose,
            _ if error.says("no history in common") => Reason::NotMergeable,
            Reason::Invalid if error.is_about("base") => Reason::BaseMissing,
            Reason::Invalid if error.is_about("head") => Reason::NotFound,
            reason => reason,
        };
        Err(error.because(reason))
    }

    async fn create(&self, request: &NewPullRequest) -> Result<Value, RequestError> {
        let NewPullRequest { branch, base, title, body } = request;
        let body = json!({
            "title": title, "head": branch, "base": base, "body": body, "maintainer_can_modify": true,
        });
        let (path, doing) = (self.path("/pulls"), format!("creating the pull request of {branch}"));
        Ok(self.http.send(&Call::new(Method::POST, &path, &doing).body(&body)).await?.body)
    }

    async fn update(&self, number: u64, request: &NewPullRequest) -> Result<PullRequest, Failure> {
        let body = json!({"title": request.title, "body": request.body, "base": request.base});
        let (path, doing) = (self.pull_path(number), format!("updating the pull request {number}"));
        match self.http.send(&Call::new(Method::PATCH, &path, &doing).body(&body)).await {
            Ok(answer) => pull_request(&answer.body),
            Err(error) if error.is_about("base") => Err(error.because(Reason::BaseMissing)),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of the open pull request of a branch.
    async fn open_pull_request(&self, branch: &str) -> Result<Option<u64>, Failure> {
        let head = in_query(&format!("{}:{branch}", self.address.owner));
        let path = self.path(&format!("/pulls?state=open&per_page=100&head={head}"));
        let doing = format!("finding the pull request of {branch}");
        let found = self.http.pages(&path, &doing, |page| page).await?;
        // GitHub ignores a filter that it cannot read, and forks have branches of the same name.
        let full_name = self.address.full_name();
        let is_ours = |found: &&Value| {
            let repository = found["head"]["repo"]["full_name"].as_str().unwrap_or_default();
            found["head"]["ref"] == json!(branch) && repository.eq_ignore_ascii_case(&full_name)
        };
        Ok(found.iter().find(is_ours).and_then(|found| found["number"].as_u64()))
    }

    pub(super) async fn find_pull_request(&self, number: u64) -> Result<Option<PullRequest>, Failure> {
        let (path, doing) = (self.pull_path(number), format!("reading the pull request {number}"));
        let mut attempt = 0;
        loop {
            let body = match self.http.read(Call::new(Method::GET, &path, &doing)).await {
                Ok(answer) => answer.body,
                Err(error) if error.status == Some(404) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let found = pull_request(&body)?;
            let is_computed = found.mergeable.is_some() || found.state != PullRequestState::Open;
            if is_computed || attempt == MERGEABLE_ATTEMPTS {
                return Ok(Some(found));
            }
            sleep(self.poll_delay * 2_u32.pow(attempt)).await;
            attempt += 1;
        }
    }

    pub(super) async fn merge_pull_request(&self, number: u64, merge: &Merge) -> Result<Merged, Failure> {
        let method = match merge.method {
            MergeMethod::Merge => "merge",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase",
        };
        let mut body = json!({"merge_method": method, "sha": merge.head});
        if let Some(title) = &merge.title {
            body["commit_title"] = json!(title);
        }
        let path = self.pull_path(number) + "/merge";
        let doing = format!("merging the pull request {number}");
        let error = match self.http.send(&Call::new(Method::PUT, &path, &doing).body(&body)).await {
            Ok(answer) => return merged(&answer.body),
            Err(error) => error,
        };
        if !matches!(error.status, Some(405 | 409)) {
            return Err(error.into());
        }
        // Also the response to a merge that was done before.
        let Some(found) = self.find_pull_request(number).await? else {
            return Err(error.because(Reason::NotFound));
        };
        if let PullRequestState::Merged { commit } = found.state
            && found.head_commit == merge.head
        {
            return Ok(Merged { commit });
        }
        let reason = match error.status {
            _ if found.head_commit != merge.head => Reason::HeadMoved,
            _ if error.says("base branch was modified") => Reason::Busy { retry_after_secs: None },
            _ if error.says("conflict") || found.mergeable == Some(false) => Reason::Conflict,
            Some(409) => Reason::HeadMoved,
            _ => Reason::NotMergeable,
        };
        Err(error.because(reason))
    }

    fn pull_path(&self, number: u64) -> String {
        self.path(&format!("/pulls/{number}"))
    }
}

fn merged(body: &Value) -> Result<Merged, Failure> {
    let commit = body["sha"].as_str().map(str::to_owned).ok_or_else(|| unexpected("a merge"))?;
    Ok(Merged { commit })
}

fn pull_request(body: &Value) -> Result<PullRequest, Failure> {
    read(body).ok_or_else(|| unexpected("a pull request"))
}

fn read(body: &Value) -> Option<PullRequest> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_merged = body["merged"] == json!(true) || body["merged_at"].is_string();
    let state = match body["state"].as_str()? {
        _ if is_merged => PullRequestState::Merged { commit: text(&body["merge_commit_sha"])? },
        "open" => PullRequestState::Open,
        _ => PullRequestState::Closed,
    };
    let mergeable = body["mergeable"].as_bool().filter(|_| state == PullRequestState::Open);
    Some(PullRequest {
        number: body["number"].as_u64()?,
        url: text(&body["html_url"])?,
        title: text(&body["title"])?,
        state,
        branch: text(&body["head"]["ref"])?,
        base: text(&body["base"]["ref"])?,
        head_commit: text(&body["head"]["sha"])?,
        mergeable,
    })
}
