//! The process table of this machine, and which processes belong to a sandbox.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod ps;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use ps as system;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// Environment variable that attributes a process to a sandbox: it holds the sandbox's directory.
pub(super) const DIRECTORY_VARIABLE: &str = "SANDBOX_FOLDER";

/// The agent's home directory within that of its sandbox.
#[cfg(target_os = "linux")]
const AGENT_HOME: &str = "home";

/// Identifies a process. A pid alone does not, because pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    pub id: i32,
    /// Start time: clock ticks since boot on Linux, elsewhere a date and time as a number.
    pub started: u64,
}

/// A running process. Zombies are excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    identity: Identity,
    parent: i32,
    group: i32,
    session: i32,
}

impl Identity {
    /// The process that has this pid now.
    pub(super) fn of(id: i32) -> Option<Self> {
        system::entry(id).map(|entry| entry.identity)
    }

    pub(super) fn is_alive(self) -> bool {
        Self::of(self.id) == Some(self)
    }

    pub(super) fn signal(self, signal: Signal) {
        system::signal(self, signal);
    }
}

/// All running processes of a sandbox: the worker, its process group and session, processes with the sandbox's directory in
/// their environment, those in `known`, and the descendants of all of these.
pub(super) fn members(
    folder: &Path,
    worker: Option<Identity>,
    known: &BTreeSet<Identity>,
) -> BTreeSet<Identity> {
    let entries = system::entries();
    let leader = worker.and_then(|worker| entries.get(&worker.id).map(|entry| (worker, entry.identity)));
    // A process group outlives its leader, and its id is not reused until the group is empty. If the id now belongs to
    // another process, the group is not the worker's. Nor is a member that is older than the worker.
    let group = worker.filter(|worker| leader.is_none_or(|(_, now)| now == *worker));
    let mut members: BTreeSet<i32> = BTreeSet::new();
    for entry in entries.values() {
        let grouped = group.is_some_and(|worker| {
            (entry.group == worker.id || entry.session == worker.id)
                && entry.identity.started >= worker.started
        });
        if grouped || known.contains(&entry.identity) || system::belongs_to(entry.identity.id, folder) {
            members.insert(entry.identity.id);
        }
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    loop {
        let before = members.len();
        for entry in entries.values() {
            if members.contains(&entry.parent) {
                members.insert(entry.identity.id);
            }
        }
        if members.len() == before {
            break;
        }
    }
    // A plane that runs inside a sandbox must not kill itself.
    members.remove(&own);
    members.iter().filter_map(|id| entries.get(id)).map(|entry| entry.identity).collect()
}

/// Boot id, on systems where start times are only unique within one boot.
pub(super) fn boot() -> String {
    system::boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_pid_is_not_the_same_process() {
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        let other = Identity { started: own.started + 1, ..own };
        assert!(!other.is_alive());
        // It would kill this test.
        other.signal(Signal::KILL);
        let members = members(Path::new("/nowhere"), Some(other), &BTreeSet::new());
        assert_eq!(members, BTreeSet::new());
    }
}
