//! Starts programs in a trust domain of their own: the agent, and everything that runs what it wrote.
//!
//! A [`Launcher`] wraps a command for the [`Tier`] in force. In the tier `namespaces`, bubblewrap gives the program its
//! own view of the system: other directories, processes and sockets do not exist in it. In every tier but `none`, a helper
//! (this executable, with [`HELPER_COMMAND`]) restricts itself with Landlock, a system call filter and resource limits,
//! drops all capabilities, and then becomes the program. In the tier `landlock`, a worker that runs as root gives the program
//! a user of its own. On macOS, `sandbox-exec` applies a profile made from the same policy.
//!
//! **Invariant:** what a tier promises and cannot enforce is an error. What depends on the version of the kernel, or on the
//! user of the worker, is a [`Gap`], which the worker reports.
//!
//! In the tier `namespaces`, programs share a [`NetworkNamespace`] with each other and not with the machine.
//!
//! Deliberately absent: the bridge between this namespace and the worker's servers (`worker/src/namespace.rs`).

mod bubblewrap;
mod gap;
mod helper;
mod launcher;
#[cfg(target_os = "linux")]
mod linux;
mod namespace;
mod policy;
mod programs;
mod seatbelt;
mod tier;
mod user;

pub use gap::{Gap, LandlockSupport};
pub use helper::{HELPER_COMMAND, become_program};
pub use launcher::{Launcher, exit_signal};
pub use namespace::{ENTER_COMMAND, NetworkNamespace, enter_namespace};
pub use policy::{Limits, Policy};
pub use tier::{Available, Setting, Tier, available};

/// Closes the memory, environment and open files of this process to other processes of the same user, for as long as it
/// executes nothing else.
///
/// # Errors
/// If the system refuses.
#[cfg(target_os = "linux")]
pub fn protect_this_process() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Other systems do not show them.
#[cfg(not(target_os = "linux"))]
pub fn protect_this_process() -> std::io::Result<()> {
    Ok(())
}
