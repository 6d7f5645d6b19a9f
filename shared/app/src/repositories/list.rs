//! Lists the repositories that the credentials of an org reach.

use crate::error::Error;
use crate::orchestration::Reachable;
use crate::tasks::pull_request::of_code_host;
use crate::visibility;
use code_hosts::catalogue::{Entry, Listing};
use code_hosts::{Failure, Reason};
use contract::repositories::{RepositoryList, RepositoryOut, UnavailableCodeHost};
use domain::access::Principal;
use domain::{Invalid, OrgId, ProjectId};

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// Only for operators. Default: the org of the caller.
    pub org: Option<OrgId>,
    /// The project whose credentials are used.
    pub project: Option<ProjectId>,
    pub query: String,
    pub cursor: Option<String>,
}

pub type Outcome = RepositoryList;

/// A page is that of one code host, and the next page may be that of another. A code host that fails is named in the page
/// of another one; if there is no other, its failure is that of the request.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, project, query, cursor } = command;
    let org = visibility::owning_org(&principal, org, deps.default_org)?;
    // Directories of the machine may belong to others.
    let with_machine = matches!(principal, Principal::Operator { .. });
    let reachable = deps.code_hosts.reachable(deps.orchestration, &org, project.as_ref(), with_machine);
    let (mut rest, mut position) = (reachable.as_slice(), None);
    if let Some(cursor) = &cursor {
        let (name, of_host) = cursor.split_once(':').unwrap_or((cursor, ""));
        let start = reachable.iter().position(|found| found.code_host == name).ok_or_else(wrong_cursor)?;
        rest = &reachable[start..];
        position = Some(of_host).filter(|text| !text.is_empty());
    }
    let mut page = RepositoryList {
        repositories: Vec::new(),
        next_cursor: None,
        has_more: false,
        unavailable: Vec::new(),
    };
    let mut failures = Vec::new();
    for (index, host) in rest.iter().enumerate() {
        match host.list(query.trim(), position.take()).await {
            Ok(Listing { entries, next }) => {
                page.repositories.extend(entries.into_iter().map(|entry| shown(host, entry)));
                let following = || rest.get(index + 1).map(|host| host.code_host.to_owned());
                page.next_cursor = next.map(|next| format!("{}:{next}", host.code_host)).or_else(following);
                if !page.repositories.is_empty()
                    || page.next_cursor.as_ref().is_some_and(|next| next.contains(':'))
                {
                    break;
                }
            }
            Err(failure) if failure.reason == Reason::Invalid && cursor.is_some() => {
                return Err(wrong_cursor());
            }
            Err(failure) => {
                page.next_cursor = None;
                page.unavailable.push(UnavailableCodeHost {
                    code_host: host.code_host.to_owned(),
                    detail: format!("{failure}. {}", failure.reason.remedy()),
                });
                failures.push(failure);
            }
        }
    }
    page.has_more = page.next_cursor.is_some();
    match failures.pop() {
        // Nothing else was asked successfully.
        Some(failure) if failures.len() + 1 == rest.len() => Err(of_code_host(failure)),
        _ => Ok(page),
    }
}

fn wrong_cursor() -> Error {
    Invalid::new("cursor", "must be next_cursor of the previous page").into()
}

fn shown(host: &Reachable, entry: Entry) -> RepositoryOut {
    RepositoryOut {
        repository: entry.name,
        code_host: host.code_host.to_owned(),
        description: entry.description,
        default_branch: entry.default_branch,
        is_repository: entry.is_repository,
    }
}

impl Reachable {
    /// A page of the repositories that the credential is for.
    async fn list(&self, query: &str, cursor: Option<&str>) -> Result<Listing, Failure> {
        let mut listing = self.catalogue.as_ref().map_err(Clone::clone)?.list(query, cursor).await?;
        listing.entries.retain(|entry| self.covers(&entry.address));
        Ok(listing)
    }
}
