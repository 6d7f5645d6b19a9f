//! The processes of Linux, as `/proc` shows them.

use super::{Entry, Identity, MARK};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Sends a signal to this process and to no other, also if its number is given to another one meanwhile.
pub(super) fn signal(process: Identity, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.id) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The handle is of the process that has the number now; from here on it does not change.
    if process.is_alive() {
        // A process that has ended meanwhile is what was wanted.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Which run of the machine this is: numbers and ticks begin again with the next.
pub(super) fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

pub(super) fn entries() -> BTreeMap<i32, Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let ids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, entry(id)?))).collect()
}

pub(super) fn entry(id: i32) -> Option<Entry> {
    parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// A line of `/proc/<id>/stat`. The name in the second field may hold anything, also brackets and spaces: what counts
/// comes after the last bracket.
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
pub(super) fn is_marked(id: i32, folder: &Path) -> bool {
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
}
