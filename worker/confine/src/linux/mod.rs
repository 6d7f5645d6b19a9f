//! Restrictions that a process of Linux puts on itself. They cannot be undone.

mod capabilities;
pub(crate) mod landlock;
mod limits;
mod reserved;
mod search_permission;
mod system_calls;
mod tree;
pub(crate) mod user;

use crate::helper::Restrictions;
use anyhow::Context;

/// Applies everything to this thread, which must be the only one.
pub(crate) fn restrict(restrictions: &Restrictions) -> anyhow::Result<()> {
    limits::set(&restrictions.policy.limits).context("cannot set resource limits")?;
    rustix::thread::set_no_new_privs(true).context("cannot disable privileges of setuid files")?;
    // Before the user changes, which may not be able to reach what it allows.
    landlock::restrict(restrictions)?;
    capabilities::drop_bounding().context("cannot drop capabilities of programs of root")?;
    if let Some(user) = restrictions.user {
        user::become_user(user).context("cannot become the user of the agent")?;
    }
    capabilities::drop_all().context("cannot drop capabilities")?;
    // Last, because it forbids some of the above.
    system_calls::filter().context("cannot filter system calls")
}
