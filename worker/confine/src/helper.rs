//! The helper: this executable as a process of its own, which restricts itself and then becomes the program.
//!
//! Restrictions apply to the calling thread and are inherited by what it executes. A program with threads cannot restrict a
//! child between fork and exec without unsafe code, so a process in between does it.

use crate::policy::Policy;
use crate::user::User;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// The hidden subcommand of the worker. Its arguments: `Restrictions` as JSON, the name of the program, its path, and its
/// arguments.
pub const HELPER_COMMAND: &str = "confined";

/// Prefix of the program's variables in the environment of bubblewrap and the helper. Both start outside of the isolation,
/// and must not use them.
const WRAPPED: &str = "confined.";

/// The name of a variable of the program in the environment of the helper.
pub(crate) fn wrapped_name(name: &str) -> String {
    format!("{WRAPPED}{name}")
}

/// What the helper is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has restrictions"))]
pub(crate) struct Restrictions {
    pub policy: Policy,
    /// Files of the system that are hidden too.
    pub private: Vec<PathBuf>,
    /// Whether the process has its own `/tmp`, `/dev` and process table.
    pub own_mounts: bool,
    /// Whether this kernel supports Landlock. Required without own mounts.
    pub landlock: bool,
    /// The user to become, if not that of the worker.
    pub user: Option<User>,
}

/// `None` for variables that are not the program's.
#[cfg(target_os = "linux")]
fn unwrapped_name(name: &std::ffi::OsStr) -> Option<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    Some(OsString::from_vec(name.as_bytes().strip_prefix(WRAPPED.as_bytes())?.to_owned()))
}

/// Restricts this process and executes the program. Returns only on failure.
#[cfg(target_os = "linux")]
pub fn become_program(arguments: &[OsString]) -> anyhow::Error {
    use anyhow::{Context, anyhow};
    use std::os::unix::process::CommandExt;
    let run = || -> anyhow::Result<std::convert::Infallible> {
        let [restrictions, name, file, arguments @ ..] = arguments else {
            return Err(anyhow!("arguments are missing"));
        };
        let restrictions = restrictions.to_str().context("the restrictions are not UTF-8")?;
        let restrictions: Restrictions =
            serde_json::from_str(restrictions).context("invalid restrictions")?;
        crate::linux::restrict(&restrictions)?;
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((unwrapped_name(&name)?, value)));
        let mut program = std::process::Command::new(file);
        let error = program.arg0(name).args(arguments).env_clear().envs(variables).exec();
        Err(anyhow::Error::new(error).context(format!("cannot execute {}", file.display())))
    };
    match run() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

#[cfg(not(target_os = "linux"))]
pub fn become_program(_arguments: &[OsString]) -> anyhow::Error {
    anyhow::anyhow!("the confinement helper runs only on Linux")
}
