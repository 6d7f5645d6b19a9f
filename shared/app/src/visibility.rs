//! What a principal may see: entities read on its behalf, and the orgs that it may list or create in.

use crate::error::Error;
use contract::ProblemCode;
use domain::access::{Principal, Visibility, can_report, can_see, can_see_org};
use domain::{Entity, OrgId, Sandbox, SandboxId, Task, TaskId, Timestamp};
use serde_json::json;
use store::Store;
use store::page::ListScope;
use store::segments::LogEnd;

/// A sandbox, if `principal` may see it. A sandbox of another org looks as if it did not exist.
pub(crate) async fn visible_sandbox(
    store: &Store,
    principal: &Principal,
    id: &SandboxId,
) -> Result<Sandbox, Error> {
    match store.sandbox(id).await? {
        Some(sandbox) => check(principal, &sandbox).map(|()| sandbox),
        None => Err(Error::no_sandbox(id)),
    }
}

/// A task, if `principal` may see it. Otherwise the response is the same as for a missing task. Workers see none.
pub(crate) async fn visible_task(store: &Store, principal: &Principal, id: &TaskId) -> Result<Task, Error> {
    match store.task(id).await? {
        Some(task) if can_see_org(principal, &task.org) == Visibility::Visible => Ok(task),
        _ => Err(Error::no_entity(&Entity::Task(id.clone()))),
    }
}

/// The end of the log of a task or ticket, if `principal` may see it. Otherwise the response is the same as for a missing
/// one. Workers see none.
pub(crate) async fn visible_log(
    store: &Store,
    principal: &Principal,
    entity: &Entity,
) -> Result<LogEnd, Error> {
    match store.log_end(entity).await? {
        Some((org, log)) if can_see_org(principal, &org) == Visibility::Visible => Ok(log),
        _ => Err(Error::no_entity(entity)),
    }
}

/// Whether `principal` may see this sandbox.
pub(crate) fn check(principal: &Principal, sandbox: &Sandbox) -> Result<(), Error> {
    allow(can_see(principal, sandbox), sandbox)
}

/// Whether `principal` may report what happened in this sandbox. A worker may do so for a while after its end.
pub(crate) fn check_report(principal: &Principal, sandbox: &Sandbox, now: Timestamp) -> Result<(), Error> {
    allow(can_report(principal, sandbox, now), sandbox)
}

fn allow(visibility: Visibility, sandbox: &Sandbox) -> Result<(), Error> {
    match visibility {
        Visibility::Visible => Ok(()),
        Visibility::Hidden => Err(Error::no_sandbox(&sandbox.id)),
        Visibility::Revoked => Err(Error::Unauthorized("This worker token was replaced by a newer one.")),
        Visibility::Ended => Err(Error::Unauthorized("The sandbox of this worker token has ended.")),
    }
}

/// Fails if the sandbox has ended.
pub(crate) fn check_not_ended(sandbox: &Sandbox) -> Result<(), Error> {
    if !sandbox.status().is_final() {
        return Ok(());
    }
    let reason = sandbox.activity.ended.as_ref().map_or("it ended", |ended| ended.reason.as_str());
    Err(Error::conflict(
        ProblemCode::SandboxFinished,
        format!("Sandbox {} is {}: {reason}", sandbox.id, sandbox.status().as_str()),
        json!({"reason": reason}),
    ))
}

/// Which orgs `principal` lists: users their own, operators all or the one they name. Workers list nothing.
pub(crate) fn list_scope(principal: &Principal, requested: Option<OrgId>) -> Result<ListScope, Error> {
    match (principal, requested) {
        (Principal::Operator { .. }, None) => Ok(ListScope::All),
        (Principal::Operator { .. }, Some(org)) => Ok(ListScope::Org(org)),
        (Principal::User { org: own, .. }, None) => Ok(ListScope::Org(own.clone())),
        (Principal::User { org: own, .. }, Some(org)) if org == *own => Ok(ListScope::Org(org)),
        (Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous, _) => {
            Err(Error::Forbidden("You can list only the resources of your own org."))
        }
    }
}

/// The org of what `principal` creates: its own, or for an operator the requested one.
pub(crate) fn owning_org(
    principal: &Principal,
    requested: Option<OrgId>,
    default_org: &OrgId,
) -> Result<OrgId, Error> {
    match (principal, requested) {
        (Principal::User { org: own, .. }, Some(org)) if org != *own => {
            Err(Error::Forbidden("You can create resources only in your own org."))
        }
        (Principal::User { org: own, .. }, _) => Ok(own.clone()),
        (_, requested) => Ok(requested.unwrap_or_else(|| default_org.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::access::Role;

    fn org(name: &str) -> OrgId {
        OrgId::parse(name).unwrap()
    }

    fn user() -> Principal {
        Principal::User { id: "u-1".to_owned(), org: org("acme"), role: Role::Member }
    }

    fn worker() -> Principal {
        Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 }
    }

    #[test]
    fn operator_lists_all_orgs_or_the_requested_one() {
        let scope = |requested| list_scope(&Principal::operator("local"), requested).unwrap();
        assert_eq!(scope(None), ListScope::All);
        assert_eq!(scope(Some(org("rival"))), ListScope::Org(org("rival")));
    }

    #[test]
    fn user_lists_only_their_own_org() {
        for requested in [None, Some(org("acme"))] {
            assert_eq!(list_scope(&user(), requested).unwrap(), ListScope::Org(org("acme")));
        }
        assert!(matches!(list_scope(&user(), Some(org("rival"))), Err(Error::Forbidden(_))));
    }

    #[test]
    fn workers_and_anonymous_callers_list_nothing() {
        for principal in [worker(), Principal::Anonymous] {
            for requested in [None, Some(org("acme"))] {
                assert!(matches!(list_scope(&principal, requested), Err(Error::Forbidden(_))));
            }
        }
    }

    #[test]
    fn user_creates_only_in_their_own_org() {
        let default_org = org("default");
        assert_eq!(owning_org(&user(), None, &default_org).unwrap(), org("acme"));
        assert!(matches!(owning_org(&user(), Some(org("rival")), &default_org), Err(Error::Forbidden(_))));
    }

    #[test]
    fn operator_creates_in_the_requested_org_or_the_default() {
        let create =
            |requested| owning_org(&Principal::operator("local"), requested, &org("default")).unwrap();
        assert_eq!((create(None), create(Some(org("rival")))), (org("default"), org("rival")));
    }
}
