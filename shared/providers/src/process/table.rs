//! Who runs on this machine, as `/proc` tells it, and who of them belongs to a sandbox.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The variable by which a process of a sandbox is known, wherever it went: the sandbox's own folder.
pub(super) const MARK: &str = "SANDBOX_FOLDER";

/// One process, which a number alone does not name: numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Its number.
    pub id: i32,
    /// When it began, in ticks since the machine did.
    pub started: u64,
}

/// What `/proc/<id>/stat` says of a process that runs. Zombies do not: they are gone, and only nobody has asked yet how
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
        entry(id).map(|entry| entry.identity)
    }

    /// Whether it still runs.
    pub(super) fn is_alive(self) -> bool {
        Self::of(self.id) == Some(self)
    }

    /// Sends it a signal, and nobody else, also if its number becomes somebody else's meanwhile.
    pub(super) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.id) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle is of whoever has the number now; from here on it does not change.
        if self.is_alive() {
            // Nobody left to hear it is what was wanted.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// Everybody who belongs to a sandbox and runs: the worker, its group and its session, whoever was started with the
/// sandbox's folder in the environment, those who are known to belong to it, and all descendants of any of them.
pub(super) fn members(
    folder: &Path,
    worker: Option<Identity>,
    known: &BTreeSet<Identity>,
) -> BTreeSet<Identity> {
    let entries = entries();
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
        if grouped || known.contains(&entry.identity) || is_marked(entry.identity.id, folder) {
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

/// Which run of the machine this is: numbers and ticks begin again with the next.
pub(super) fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

fn entries() -> BTreeMap<i32, Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let ids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, entry(id)?))).collect()
}

fn entry(id: i32) -> Option<Entry> {
    parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// The name in the second field may hold anything, also brackets and spaces: what counts comes after the last bracket.
fn parse(id: i32, stat: &str) -> Option<Entry> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if ["Z", "X", "x"].contains(fields.first()?) {
        return None;
    }
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let started = fields.get(19)?.parse().ok()?;
    let identity = Identity { id, started };
    Some(Entry { identity, parent: number(1)?, group: number(2)?, session: number(3)? })
}

/// Whether it was started with the sandbox's folder in its environment. Those of other users cannot be read, and are
/// not ours.
fn is_marked(id: i32, folder: &Path) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{id}/environ")) else { return false };
    let mark = [MARK.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes()].concat();
    environment.split(|&byte| byte == 0).any(|variable| variable == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse_and_a_zombie_is_gone() {
        let stat = |state: &str| {
            format!("7 (a) b (c)) {state} 5 6 4 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 998877 1000 200")
        };
        let entry = parse(7, &stat("S")).unwrap();
        let identity = Identity { id: 7, started: 998_877 };
        assert_eq!(entry, Entry { identity, parent: 5, group: 6, session: 4 });
        assert_eq!(parse(7, &stat("Z")), None);
        assert_eq!(parse(7, "7 (a) S 5"), None);
    }

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
