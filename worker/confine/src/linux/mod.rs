//! Restrictions that a process of Linux puts on itself. They cannot be undone.

mod capabilities;
pub(crate) mod landlock;
mod limits;
mod system_calls;

use crate::helper::Restrictions;
use anyhow::Context;

/// Applies everything to this thread, which must be the only one.
pub(crate) fn restrict(restrictions: &Restrictions) -> anyhow::Result<()> {
    limits::set(&restrictions.policy.limits).context("cannot set resource limits")?;
    rustix::thread::set_no_new_privs(true).context("cannot disable privileges of setuid files")?;
    landlock::restrict(restrictions)?;
    capabilities::drop_all().context("cannot drop capabilities")?;
    // Last, because it forbids some of the above.
    system_calls::filter().context("cannot filter system calls")
}
