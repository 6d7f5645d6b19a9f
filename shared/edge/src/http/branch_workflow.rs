//! The branches of tickets under the names of OmoiOS.

use super::endpoint::ok;
use super::{Call, Endpoint, json};
use app::{Error, branch_workflow};
use bytes::Bytes;
use contract::ProblemCode::{CodeHostRefused, NoBranch, NoPullRequest, NotFound, TaskActive};
use contract::branch_workflow::{BranchStatus, Finish, Finished, Merge, Merged, Selection, Start, Started};
use contract::requests::{FinishBranch, MergeBranch, StartBranch};
use http::{Response, StatusCode};

/// `POST /api/v1/branch-workflow/start`.
pub const START: Endpoint = Endpoint::new(|call| Box::pin(start(call)), &[ok::<Started>()])
    .body::<StartBranch>()
    .problems(&[NotFound, NoBranch, CodeHostRefused]);
/// `POST /api/v1/branch-workflow/finish`.
pub const FINISH: Endpoint = Endpoint::new(|call| Box::pin(finish(call)), &[ok::<Finished>()])
    .body::<FinishBranch>()
    .problems(&[NotFound, NoBranch, CodeHostRefused]);
/// `POST /api/v1/branch-workflow/merge`.
pub const MERGE: Endpoint = Endpoint::new(|call| Box::pin(merge(call)), &[ok::<Merged>()])
    .body::<MergeBranch>()
    .problems(&[NotFound, NoBranch, NoPullRequest, TaskActive, CodeHostRefused]);
/// `GET /api/v1/branch-workflow/status`.
pub const STATUS: Endpoint = Endpoint::new(|call| Box::pin(status(call)), &[ok::<BranchStatus>()])
    .query(Selection::PARAMETERS)
    .problems(&[NotFound, NoBranch, CodeHostRefused]);

async fn start(call: Call) -> Result<Response<Bytes>, Error> {
    let start = Start::decode(&call.body)?;
    let deps = call.plane.pull_request_deps()?;
    let command = branch_workflow::start::Command { principal: call.principal, start };
    Ok(json(StatusCode::OK, &branch_workflow::start::run(deps, command).await?))
}

async fn finish(call: Call) -> Result<Response<Bytes>, Error> {
    let finish = Finish::decode(&call.body)?;
    let deps = call.plane.pull_request_deps()?;
    let command = branch_workflow::finish::Command { principal: call.principal, finish };
    Ok(json(StatusCode::OK, &branch_workflow::finish::run(deps, command).await?))
}

async fn merge(call: Call) -> Result<Response<Bytes>, Error> {
    let merge = Merge::decode(&call.body)?;
    let deps = call.plane.pull_request_deps()?;
    let command = branch_workflow::merge::Command { principal: call.principal, merge };
    Ok(json(StatusCode::OK, &branch_workflow::merge::run(deps, command).await?))
}

async fn status(call: Call) -> Result<Response<Bytes>, Error> {
    let selection = Selection::of_query(&call.query)?;
    let deps = call.plane.pull_request_deps()?;
    let command = branch_workflow::status::Command { principal: call.principal, selection };
    Ok(json(StatusCode::OK, &branch_workflow::status::run(deps, command).await?))
}
