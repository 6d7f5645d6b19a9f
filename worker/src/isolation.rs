//! Staying inside: the worker takes from itself, and so from its agent and everything that it starts, whatever it has no
//! use for. The kernel keeps it to that (Landlock), and nobody can undo it.
//!
//! Only the thread that asks is kept inside, and a program has several. So the worker starts itself again in place of
//! itself: what that becomes is inside from its first step, under the same process id.
//!
//! **Invariant:** isolation that was asked for and is not possible ends the worker. It never runs with less.
//!
//! Not kept back: looking whether a file is there, UDP (so names can be looked up, and more could be said), listening at
//! ports, and, on kernels before 6.12, signals to other processes of the same user. Where connections are held back, so
//! are those to a dev server of the agent's own: it runs, and its preview is not noticed.

#[cfg(target_os = "linux")]
mod landlock;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a worker may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walls {
    /// Folders in which it may do everything.
    pub own: Vec<PathBuf>,
    /// Folders, beside the system's, in which it may read and run.
    pub readable: Vec<PathBuf>,
    /// Ports that it may connect to; `None` for all.
    pub ports: Option<Vec<u16>>,
}

impl Walls {
    /// What they are, in words.
    pub fn describe(&self) -> String {
        match &self.ports {
            None => "files".to_owned(),
            Some(ports) => format!("files, and connections to the ports {ports:?} only"),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Walls {
    /// Nothing enforces them here.
    fn enter(&self, _program: &Path) -> anyhow::Result<()> {
        anyhow::bail!("it is enforced by Landlock, which is part of Linux; this is {}", std::env::consts::OS)
    }
}

/// Starts this program again, inside. Comes back only with the reason why that is not possible.
pub fn enter(walls: &Walls, program: &[String]) -> anyhow::Error {
    let Some((file, arguments)) = program.split_first() else {
        return anyhow::anyhow!("the worker does not know what it is called");
    };
    if let Err(why) = walls.enter(Path::new(file)) {
        return why;
    }
    // Asked for once: what runs now is inside, and is not told again.
    let why = Command::new(file).args(arguments).env_remove("ISOLATION").exec();
    anyhow::Error::new(why).context("the worker cannot start itself again")
}
