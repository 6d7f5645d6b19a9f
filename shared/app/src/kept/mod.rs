//! Kept work: what workers upload of their workspaces before their sandboxes are removed, and its download.

pub mod keep;
pub mod list;
pub mod read;
pub mod store_piece;

use crate::error::Error;
use crate::visibility::visible_task;
use contract::ProblemCode;
use domain::access::Principal;
use domain::kept::KeptWork;
use domain::{Sandbox, TaskId, Timestamp};
use serde_json::json;
use store::Store;

/// The kept work of a task that `principal` may see.
async fn find(
    store: &Store,
    principal: &Principal,
    id: &TaskId,
    attempt: Option<u32>,
    now: Timestamp,
) -> Result<KeptWork, Error> {
    let task = visible_task(store, principal, id).await?;
    let kept = store.kept_work(&task.id, attempt).await?.ok_or_else(|| {
        let of_attempt = attempt.map(|number| format!("attempt {number} of ")).unwrap_or_default();
        no_workspace(format!(
            "No work of {of_attempt}task {id} is kept. A worker uploads it when its agent ends, unless the work is on the \
             branch of the task."
        ))
    })?;
    if kept.is_expired(now) {
        return Err(expired(id, &kept));
    }
    Ok(kept)
}

fn no_workspace(detail: String) -> Error {
    Error::conflict(ProblemCode::NoWorkspace, detail, json!({}))
}

fn expired(id: &TaskId, kept: &KeptWork) -> Error {
    let until = kept.expires_at;
    let detail = format!("The work of task {id} was kept until {until}, and is deleted.");
    Error::conflict(ProblemCode::WorkspaceExpired, detail, json!({}))
}

/// The task and the attempt of a sandbox.
fn assignment_of(sandbox: &Sandbox) -> Result<(&TaskId, u32), Error> {
    let assignment = sandbox.assignment.as_ref().ok_or_else(|| {
        let detail = format!("Sandbox {} has no task whose work could be kept.", sandbox.id);
        Error::conflict(ProblemCode::TaskMismatch, detail, json!({}))
    })?;
    Ok((&assignment.task, assignment.attempt))
}
