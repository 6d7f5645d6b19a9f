//! Which processes run on this machine, and which of them belong to a sandbox.

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

/// The variable by which a process of a sandbox is known, wherever it went: the sandbox's own folder.
pub(super) const MARK: &str = "SANDBOX_FOLDER";

/// One process, which a number alone does not name: numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Its number.
    pub id: i32,
    /// When it began: in ticks since the machine did, or as a time of day.
    pub started: u64,
}

/// What the system says of a process that runs. Zombies do not: they are gone, and only nobody has asked yet how
/// they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    identity: Identity,
    parent: i32,
    group: i32,
    session: i32,
}

impl Identity {
    /// The process that has this number now.
    pub(super) fn of(id: i32) -> Option<Self> {
        system::entry(id).map(|entry| entry.identity)
    }

    /// Whether it still runs.
    pub(super) fn is_alive(self) -> bool {
        Self::of(self.id) == Some(self)
    }

    /// Sends it a signal.
    pub(super) fn signal(self, signal: Signal) {
        system::signal(self, signal);
    }
}

/// Everybody who belongs to a sandbox and runs: the worker, its group and its session, whoever was started with the
/// sandbox's folder in the environment, those who are known to belong to it, and all descendants of any of them.
pub(super) fn members(
    folder: &Path,
    worker: Option<Identity>,
    known: &BTreeSet<Identity>,
) -> BTreeSet<Identity> {
    let entries = system::entries();
    let leader = worker.and_then(|worker| entries.get(&worker.id).map(|entry| (worker, entry.identity)));
    // A group outlives its leader, and its number stays taken until it is empty. One whose number now belongs to
    // another process, or that began before the worker did, is not ours.
    let group = worker.filter(|worker| leader.is_none_or(|(_, now)| now == *worker));
    let mut members: BTreeSet<i32> = BTreeSet::new();
    for entry in entries.values() {
        let grouped = group.is_some_and(|worker| {
            (entry.group == worker.id || entry.session == worker.id)
                && entry.identity.started >= worker.started
        });
        if grouped || known.contains(&entry.identity) || system::is_marked(entry.identity.id, folder) {
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
    // A plane that runs inside of a sandbox does not end itself.
    members.remove(&own);
    members.iter().filter_map(|id| entries.get(id)).map(|entry| entry.identity).collect()
}

/// Which run of the machine this is, if process identities begin again with the next.
pub(super) fn boot() -> String {
    system::boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_somebody_elses_now_is_not_the_process() {
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        let other = Identity { started: own.started + 1, ..own };
        assert!(!other.is_alive());
        // It would end this test.
        other.signal(Signal::KILL);
        let members = members(Path::new("/nowhere"), Some(other), &BTreeSet::new());
        assert_eq!(members, BTreeSet::new());
    }
}
