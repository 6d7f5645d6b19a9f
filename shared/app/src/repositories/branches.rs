//! Lists the branches of a repository.

use crate::error::Error;
use crate::orchestration::check_repository;
use crate::tasks::pull_request::of_code_host;
use crate::visibility;
use contract::ProblemCode;
use contract::repositories::{BranchList, BranchOut, MAX_BRANCHES};
use domain::access::Principal;
use domain::{Invalid, OrgId, ProjectId};
use serde_json::json;

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// Only for operators. Default: the org of the caller.
    pub org: Option<OrgId>,
    /// The project whose credentials are used.
    pub project: Option<ProjectId>,
    /// As a ticket would name it.
    pub repository: String,
    pub query: String,
}

pub type Outcome = BranchList;

/// Fails like the first stage of a sandbox if a task could not work in the repository.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, project, repository: name, query } = command;
    let org = visibility::owning_org(&principal, org, deps.default_org)?;
    check_repository(&principal, Some(&name))?;
    contract::repository::parse(&name).map_err(|rule| Invalid::new("repository", rule.to_string()))?;
    let repository = deps.code_hosts.named(deps.orchestration, &org, project.as_ref(), &name);
    let repository = repository.map_err(of_code_host)?.ok_or_else(|| {
        let detail = format!("This plane has no credential for the repository {name}.");
        Error::conflict(ProblemCode::NoRepository, detail, json!({}))
    })?;
    let default_branch = repository.host.check(None).await.map_err(of_code_host)?.branch;
    let query = query.trim().to_lowercase();
    let mut branches = repository.host.branches().await.map_err(of_code_host)?;
    branches.retain(|branch| branch.name.to_lowercase().contains(&query));
    branches.sort_by_key(|branch| branch.name != default_branch);
    let has_more = branches.len() > MAX_BRANCHES;
    branches.truncate(MAX_BRANCHES);
    let branches = branches.into_iter().map(|branch| BranchOut { name: branch.name, commit: branch.commit });
    Ok(BranchList { repository: name, default_branch, branches: branches.collect(), has_more })
}
