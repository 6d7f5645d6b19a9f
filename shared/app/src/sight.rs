//! Reading a head on somebody's behalf.

use crate::error::Error;
use domain::access::{Principal, Sight, sees, sees_org};
use domain::{Entity, Head, SandboxId, Task, TaskId};
use serde_json::json;
use store::Store;
use store::segments::LogHead;

/// The head of a sandbox, if `principal` may see it. A foreign one looks exactly like one that is not there.
pub(crate) async fn visible_head(
    store: &Store,
    principal: &Principal,
    id: &SandboxId,
) -> Result<Head, Error> {
    match store.head(id).await? {
        Some(head) => check(principal, &head).map(|()| head),
        None => Err(Error::no_sandbox(id)),
    }
}

/// A task, if `principal` may see it. A foreign one looks exactly like one that is not there, and to a worker they all
/// do.
pub(crate) async fn visible_task(store: &Store, principal: &Principal, id: &TaskId) -> Result<Task, Error> {
    match store.task(id).await? {
        Some(task) if sees_org(principal, &task.org) == Sight::Visible => Ok(task),
        _ => Err(Error::no_entity(&Entity::Task(id.clone()))),
    }
}

/// Where the log of a task or ticket ends, if `principal` may see it. A foreign one looks exactly like one that is not
/// there, and to a worker they all do.
pub(crate) async fn visible_log(
    store: &Store,
    principal: &Principal,
    entity: &Entity,
) -> Result<LogHead, Error> {
    match store.log_head(entity).await? {
        Some((org, head)) if sees_org(principal, &org) == Sight::Visible => Ok(head),
        _ => Err(Error::no_entity(entity)),
    }
}

/// Whether `principal` may see the sandbox with this head.
pub(crate) fn check(principal: &Principal, head: &Head) -> Result<(), Error> {
    match sees(principal, head) {
        Sight::Visible => Ok(()),
        Sight::Hidden => Err(Error::no_sandbox(&head.id)),
        Sight::Revoked => Err(Error::Unauthorized("This worker token was replaced by a newer one.")),
    }
}

/// Whether somebody can still be reached there.
pub(crate) fn alive(head: &Head) -> Result<(), Error> {
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
