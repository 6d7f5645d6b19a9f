//! Reading a head on somebody's behalf.

use crate::error::Error;
use domain::access::{Principal, Sight, sees};
use domain::{Head, SandboxId};
use store::Store;

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

/// Whether `principal` may see the sandbox with this head.
pub(crate) fn check(principal: &Principal, head: &Head) -> Result<(), Error> {
    match sees(principal, head) {
        Sight::Visible => Ok(()),
        Sight::Hidden => Err(Error::no_sandbox(&head.id)),
        Sight::Revoked => Err(Error::Unauthorized("This worker token was replaced by a newer one.")),
    }
}
