//! The process table of Linux, from `/proc`.

use super::{DIRECTORY_VARIABLE, Entry, Identity};
use procfs::process::{Process, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::ffi::OsStr;
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

/// Whether the process was started with the sandbox's directory in its environment. Environments of other users'
/// processes are not readable; those processes belong to no sandbox.
pub(super) fn belongs_to(id: i32, folder: &Path) -> bool {
    let environment = Process::new(id).and_then(|process| process.environ()).unwrap_or_default();
    environment.get(OsStr::new(DIRECTORY_VARIABLE)).is_some_and(|value| Path::new(value) == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

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
