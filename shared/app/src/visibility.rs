//! Reading a head on somebody's behalf.

use crate::error::Error;
use domain::access::{Principal, Visibility, can_see, can_see_org};
use domain::{Entity, Sandbox, SandboxId, Task, TaskId};
use serde_json::json;
use store::Store;
use store::segments::LogEnd;

/// The head of a sandbox, if `principal` may see it. A foreign one looks exactly like one that is not there.
pub(crate) async fn visible_sandbox(
    store: &Store,
    principal: &Principal,
    id: &SandboxId,
) -> Result<Sandbox, Error> {
    match store.sandbox(id).await? {
        Some(head) => check(principal, &head).map(|()| head),
        None => Err(Error::no_sandbox(id)),
    }
}

/// A task, if `principal` may see it. A foreign one looks exactly like one that is not there, and to a worker they all
/// do.
pub(crate) async fn visible_task(store: &Store, principal: &Principal, id: &TaskId) -> Result<Task, Error> {
    match store.task(id).await? {
        Some(task) if can_see_org(principal, &task.org) == Visibility::Visible => Ok(task),
        _ => Err(Error::no_entity(&Entity::Task(id.clone()))),
    }
}

/// Where the log of a task or ticket ends, if `principal` may see it. A foreign one looks exactly like one that is not
/// there, and to a worker they all do.
pub(crate) async fn visible_log(
    store: &Store,
    principal: &Principal,
    entity: &Entity,
) -> Result<LogEnd, Error> {
    match store.log_end(entity).await? {
        Some((org, head)) if can_see_org(principal, &org) == Visibility::Visible => Ok(head),
        _ => Err(Error::no_entity(entity)),
    }
}

/// Whether `principal` may see the sandbox with this head.
pub(crate) fn check(principal: &Principal, head: &Sandbox) -> Result<(), Error> {
    match can_see(principal, head) {
        Visibility::Visible => Ok(()),
        Visibility::Hidden => Err(Error::no_sandbox(&head.id)),
        Visibility::Revoked => Err(Error::Unauthorized("This worker token was replaced by a newer one.")),
    }
}

/// Whether somebody can still be reached there.
pub(crate) fn alive(head: &Sandbox) -> Result<(), Error> {
    if !head.status.is_final() {
        return Ok(());
    }
    let reason = head.activity.ended.as_ref().map_or("it ended", |ended| ended.reason.as_str());
    Err(Error::conflict(
        "sandbox_finished",
        format!("Sandbox {} is {}: {reason}", head.id, head.status.as_str()),
        json!({"reason": reason}),
    ))
}
