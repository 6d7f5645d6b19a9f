//! Repositories at github.com and GitHub Enterprise, over the REST API.
//!
//! Surprises of that API: an empty repository responds 409 to questions about refs; only Apps can create check
//! runs, so a token reports commit statuses; `mergeable` is null while GitHub computes it; a merge that was done
//! already responds 405; a repository that the credential may not see responds 404; and threads of reviews can be
//! resolved over the GraphQL API only.
//!
//! Deliberately absent: cloning and pushing, which git does with [`CodeHost::git_access`], and webhooks, which the
//! plane receives (`contract::webhooks`).

mod address;
mod branches;
mod cache;
mod catalogue;
mod compare;
mod conflicts;
mod credential;
mod discussion;
mod feedback;
mod http;
mod kind;
mod logs;
mod pulls;
mod reports;
mod tokens;

use crate::{
    Base, Branch, Check, CodeHost, Comparison, Conflicts, Creation, Feedback, GitAccess, HostFuture, Merge,
    Merged, NewPullRequest, PullRequest, Reply, Status, names,
};
use address::Address;
pub(crate) use cache::ResponseCache;
use http::Http;
pub(crate) use http::client;
pub use kind::GITHUB;
use std::time::Duration;
pub(crate) use tokens::TokenCache;

/// User name for git with a token of any kind.
const GIT_USER: &str = "x-access-token";

/// One repository at GitHub.
#[derive(Debug)]
pub struct GitHub {
    address: Address,
    http: Http,
    poll_delay: Duration,
    /// Logins of programs whose feedback counts, in lower case.
    bots: Vec<String>,
}

impl CodeHost for GitHub {
    fn name(&self) -> &'static str {
        GITHUB.name
    }

    fn check<'a>(&'a self, base: Option<&'a str>) -> HostFuture<'a, Base> {
        Box::pin(async move {
            base.map_or(Ok(()), names::check_branch)?;
            self.check_base(base).await
        })
    }

    fn branches(&self) -> HostFuture<'_, Vec<Branch>> {
        Box::pin(self.list_branches())
    }

    fn branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, Option<String>> {
        Box::pin(async move {
            names::check_branch(name)?;
            self.find_branch(name).await
        })
    }

    fn create_branch<'a>(&'a self, name: &'a str, commit: &'a str) -> HostFuture<'a, Creation> {
        Box::pin(async move {
            names::check_branch(name)?;
            names::check_commit(commit)?;
            self.new_branch(name, commit).await
        })
    }

    fn delete_branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, ()> {
        Box::pin(async move {
            names::check_branch(name)?;
            self.remove_branch(name).await
        })
    }

    fn git_access(&self) -> HostFuture<'_, GitAccess> {
        Box::pin(async move {
            let (token, expires_at_secs) = self.http.git_token().await?;
            let (url, username) = (self.address.git_url.clone(), Some(GIT_USER.to_owned()));
            Ok(GitAccess { url, username, token: Some(token), expires_at_secs })
        })
    }

    fn propose<'a>(&'a self, request: &'a NewPullRequest) -> HostFuture<'a, PullRequest> {
        Box::pin(async move {
            names::check_branch(&request.branch)?;
            names::check_branch(&request.base)?;
            self.create_or_update(request).await
        })
    }

    fn pull_request(&self, number: u64) -> HostFuture<'_, Option<PullRequest>> {
        Box::pin(self.find_pull_request(number))
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a Merge) -> HostFuture<'a, Merged> {
        Box::pin(async move {
            names::check_commit(&merge.head)?;
            self.merge_pull_request(number, merge).await
        })
    }

    fn feedback(&self, number: u64) -> HostFuture<'_, Option<Feedback>> {
        Box::pin(self.read_feedback(number))
    }

    fn reply<'a>(&'a self, number: u64, replies: &'a [Reply]) -> HostFuture<'a, ()> {
        Box::pin(self.post(number, replies))
    }

    fn report_status<'a>(&'a self, commit: &'a str, status: &'a Status) -> HostFuture<'a, ()> {
        Box::pin(async move {
            names::check_commit(commit)?;
            self.report(commit, status).await
        })
    }

    fn checks<'a>(&'a self, commit: &'a str) -> HostFuture<'a, Vec<Check>> {
        Box::pin(async move {
            names::check_commit(commit)?;
            self.list_checks(commit).await
        })
    }

    fn conflicts<'a>(&'a self, base: &'a str, heads: &'a [String]) -> HostFuture<'a, Conflicts> {
        Box::pin(async move {
            names::check_revision(base)?;
            heads.iter().try_for_each(|head| names::check_revision(head))?;
            self.estimated_conflicts(base, heads).await
        })
    }

    fn compare<'a>(&'a self, base: &'a str, head: &'a str) -> HostFuture<'a, Comparison> {
        Box::pin(async move {
            names::check_revision(base)?;
            names::check_revision(head)?;
            self.comparison(base, head).await
        })
    }
}

impl GitHub {
    /// A path below the repository: `/repos/acme/shop/pulls`.
    fn path(&self, rest: &str) -> String {
        format!("/repos/{}{rest}", self.address.full_name())
    }
}
