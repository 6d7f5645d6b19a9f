//! Repositories and branches to choose from.

use super::endpoint::ok;
use super::parameters::CURSOR;
use super::{Call, Endpoint, json};
use app::{Error, repositories};
use bytes::Bytes;
use contract::ProblemCode::{CodeHostRefused, NoRepository};
use contract::fields;
use contract::query::Parameter;
use contract::repositories::{BranchList, MAX_QUERY_CHARS, QUERY, RepositoryList};
use domain::{OrgId, ProjectId};
use http::{Response, StatusCode};

/// `GET /api/v1/repositories`.
pub const LIST: Endpoint = Endpoint::new(|call| Box::pin(list(call)), &[ok::<RepositoryList>()])
    .query(&[ORG, PROJECT, QUERY, CURSOR])
    .problems(&[CodeHostRefused]);
/// `GET /api/v1/repositories/branches`.
pub const BRANCHES: Endpoint = Endpoint::new(|call| Box::pin(branches(call)), &[ok::<BranchList>()])
    .query(&[ORG, PROJECT, REPOSITORY, QUERY])
    .problems(&[NoRepository, CodeHostRefused]);

const ORG: Parameter =
    Parameter::id("org", "Only for operators: the org whose credentials are used. Default: the user's own.");
const PROJECT: Parameter = Parameter::id("project_id", "The project whose credentials are used.");
const REPOSITORY: Parameter =
    Parameter::text("repository", "Required: the repository, as a ticket would name it.")
        .up_to_chars(MAX_QUERY_CHARS);

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let command = repositories::list::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
        project: call.query.parsed(&PROJECT, ProjectId::parse)?,
        query: query(&call)?,
        cursor: call.query.get(&CURSOR).map(str::to_owned),
        principal: call.principal.clone(),
    };
    Ok(json(StatusCode::OK, &repositories::list::run(deps(&call)?, command).await?))
}

async fn branches(call: Call) -> Result<Response<Bytes>, Error> {
    let repository = fields::required("repository", call.query.get(&REPOSITORY))?;
    let command = repositories::branches::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
        project: call.query.parsed(&PROJECT, ProjectId::parse)?,
        repository: fields::line("repository", repository, MAX_QUERY_CHARS)?,
        query: query(&call)?,
        principal: call.principal.clone(),
    };
    Ok(json(StatusCode::OK, &repositories::branches::run(deps(&call)?, command).await?))
}

/// The text that is searched for; an empty one finds everything.
fn query(call: &Call) -> Result<String, Error> {
    match call.query.get(&QUERY).unwrap_or_default() {
        blank if blank.trim().is_empty() => Ok(String::new()),
        text => Ok(fields::line("query", text, MAX_QUERY_CHARS)?),
    }
}

fn deps(call: &Call) -> Result<repositories::Deps<'_>, Error> {
    let plane = &call.plane;
    Ok(repositories::Deps {
        orchestration: &plane.settings.orchestration,
        code_hosts: plane.code_hosts()?,
        default_org: &plane.settings.default_org,
    })
}
