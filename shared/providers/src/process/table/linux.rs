//! The process table of Linux, from `/proc`.

use super::{DIRECTORY_VARIABLE, Entry, Identity};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs;
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

/// Parses `/proc/<id>/stat`. The name in the second field may contain parentheses and spaces, so parsing starts after the
/// last parenthesis.
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

/// Whether the process was started with the sandbox's directory in its environment. Environments of other users'
/// processes are not readable; those processes belong to no sandbox.
pub(super) fn belongs_to(id: i32, folder: &Path) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{id}/environ")) else { return false };
    let expected = [DIRECTORY_VARIABLE.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes()].concat();
    environment.split(|&byte| byte == 0).any(|variable| variable == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_parsed_and_zombies_are_excluded() {
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
