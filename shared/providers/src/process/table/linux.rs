//! The process table of Linux, from `/proc`.

use super::{AGENT_HOME, DIRECTORY_VARIABLE, Entry, Identity};
use procfs::process::{Process, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Signals this process and no other, even if its pid is reused in the meantime.
pub(super) fn signal(process: Identity, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.id) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The handle stays bound to the process that has the pid now.
    if process.is_alive() {
        // An error means that the process has exited, which is fine.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Pids and start times are only unique within one boot.
pub(super) fn boot() -> String {
    procfs::sys::kernel::random::boot_id().unwrap_or_default()
}

pub(super) fn entries() -> BTreeMap<i32, Entry> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes.filter_map(|process| Some((process.pid, read(&process)?))).collect()
}

pub(super) fn entry(id: i32) -> Option<Entry> {
    read(&Process::new(id).ok()?)
}

/// `None` for zombies: they do not run any more.
fn read(process: &Process) -> Option<Entry> {
    let stat = process.stat().ok().filter(|stat| !['Z', 'X', 'x'].contains(&stat.state))?;
    let identity = Identity { id: stat.pid, started: stat.starttime };
    Some(Entry { identity, parent: stat.ppid, group: stat.pgrp, session: stat.session })
}

/// Whether the process was started with the sandbox's directory in its environment, or is of the user that the worker gave to
/// its agent: the owner of the agent's home directory, if that is not this user.
pub(super) fn belongs_to(id: i32, folder: &Path) -> bool {
    let environment = Process::new(id).and_then(|process| process.environ()).unwrap_or_default();
    if environment.get(OsStr::new(DIRECTORY_VARIABLE)).is_some_and(|value| Path::new(value) == folder) {
        return true;
    }
    let own = rustix::process::geteuid().as_raw();
    // Links are not followed: they could lead to the home directory of another user.
    let home = std::fs::symlink_metadata(folder.join(AGENT_HOME)).ok().filter(std::fs::Metadata::is_dir);
    let agent = home.map(|home| home.uid()).filter(|user| *user != own && AGENTS.contains(user));
    agent.is_some() && Process::new(id).and_then(|process| process.uid()).ok() == agent
}

/// Users that only agents have: those of `confine`. (In a container with few users, they have numbers that accounts may have.)
const AGENTS: std::ops::Range<u32> = 0x7000_0001..0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_the_agents_own_user_belong_to_its_sandbox() {
        use std::os::unix::fs::chown;
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            // Only a worker that runs as root gives its agent another user.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join(AGENT_HOME);
        std::fs::create_dir(&home).unwrap();
        let user = AGENTS.start + 4711;
        let mut sleep = std::process::Command::new("sleep");
        let mut agent = sleep.arg("1000").env_clear().uid(user).gid(user).spawn().unwrap();
        let id = i32::try_from(agent.id()).unwrap();
        assert!(!belongs_to(id, folder.path()), "the home directory is not its own");
        chown(&home, Some(user), Some(user)).unwrap();
        assert!(belongs_to(id, folder.path()));
        assert!(!belongs_to(1, folder.path()), "a process of another user");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    #[test]
    fn own_process_is_listed_and_a_zombie_is_not() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(entries().get(&own), entry(own).as_ref());
        assert!(entry(own).unwrap().identity.started > 0 && !boot().is_empty());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while entry(id).is_some() {
            assert!(std::time::Instant::now() < deadline, "it exits, and is not waited for");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
