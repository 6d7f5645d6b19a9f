//! Restricts the worker, its agent and all their child processes with Landlock. The restriction cannot be undone.
//!
//! Landlock applies to the calling thread only, and a program has several. So the worker applies the policy and then
//! executes itself again: the new process image is restricted from the start and keeps its process id.
//!
//! **Invariant:** if the requested isolation cannot be enforced, the worker exits. It never runs with less.
//!
//! Not restricted: checking whether a file exists, UDP (needed for DNS, but usable for more), listening on ports, and,
//! on kernels before 6.12, signals to other processes of the same user. If TCP connections are restricted, connections
//! to the agent's own dev servers are too: they run, but their previews are not detected.

#[cfg(target_os = "linux")]
mod landlock;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the worker and its child processes may access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Directories with full access.
    pub writable: Vec<PathBuf>,
    /// Directories, besides the system's, with read and execute access.
    pub readable: Vec<PathBuf>,
    /// TCP ports that may be connected to; `None` for all.
    pub ports: Option<Vec<u16>>,
}

impl SandboxPolicy {
    /// Human-readable summary.
    pub fn describe(&self) -> String {
        match &self.ports {
            None => "files".to_owned(),
            Some(ports) => format!("files; TCP connections only to ports {ports:?}"),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl SandboxPolicy {
    fn apply(&self, _program: &Path) -> anyhow::Result<()> {
        anyhow::bail!("isolation requires Landlock, which is part of Linux; this is {}", std::env::consts::OS)
    }
}

/// Applies the policy and executes this program again. Returns only on failure.
pub fn reexec(policy: &SandboxPolicy, program: &[String]) -> anyhow::Error {
    let Some((file, arguments)) = program.split_first() else {
        return anyhow::anyhow!("the path of the worker program is unknown");
    };
    if let Err(why) = policy.apply(Path::new(file)) {
        return why;
    }
    // Without the variable, the restricted process does not apply the policy again.
    let why = Command::new(file).args(arguments).env_remove("ISOLATION").exec();
    anyhow::Error::new(why).context("cannot execute the worker again")
}
