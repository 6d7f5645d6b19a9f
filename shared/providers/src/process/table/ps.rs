//! The process table of systems without `/proc` (macOS), from `ps`. Tested on Linux, whose `ps` takes the same options and
//! prints the same columns.
//!
//! Deliberately absent: sessions, which macOS does not print, and environments. So a process that has left its process
//! group and whose parent has exited is not found.

use super::{Entry, Identity};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
#[cfg(not(target_os = "linux"))]
use std::path::Path;
use std::process::Command;

const COLUMNS: &str = "pid=,ppid=,pgid=,stat=,lstart=";

/// There are no process handles here: if the process exits between the check and the signal and its pid is reused in that
/// moment, another process receives the signal.
pub(super) fn signal(process: Identity, signal: Signal) {
    let is_alive = entry(process.id).is_some_and(|now| now.identity == process);
    if let Some(pid) = Pid::from_raw(process.id).filter(|_| is_alive) {
        // An error means that the process has exited, which is fine.
        let _ = kill_process(pid, signal);
    }
}

/// Not needed here: start times are dates and do not repeat after a reboot.
#[cfg(not(target_os = "linux"))]
pub(super) fn boot() -> String {
    String::new()
}

pub(super) fn entries() -> BTreeMap<i32, Entry> {
    ps(&["-A"]).lines().filter_map(parse).map(|entry| (entry.identity.id, entry)).collect()
}

pub(super) fn entry(id: i32) -> Option<Entry> {
    ps(&["-p", &id.to_string()]).lines().find_map(parse)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn belongs_to(_id: i32, _folder: &Path) -> bool {
    false
}

fn ps(selection: &[&str]) -> String {
    let mut command = Command::new("ps");
    // English month names and no daylight saving time.
    command.args(selection).args(["-o", COLUMNS]).env("LC_ALL", "C").env("TZ", "UTC");
    command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// `7 5 6 Ss Wed Nov 18 00:27:55 2026`
fn parse(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[id, parent, group, state, _, month, day, time, year] = fields.as_slice() else { return None };
    if state.starts_with('Z') {
        return None;
    }
    let number = |text: &str| text.parse::<i32>().ok();
    let identity = Identity { id: number(id)?, started: sortable(year, month, day, time)? };
    Some(Entry { identity, parent: number(parent)?, group: number(group)?, session: 0 })
}

/// A date and time as a number that increases with it: 20261118002755.
fn sortable(year: &str, month: &str, day: &str, time: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(month).filter(|_| month.len() == 3)? / 3 + 1;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>().try_into().ok()?;
    format!("{year}{month:02}{day:0>2}{hour}{minute}{second}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_parsed() {
        let entry = parse(" 7     5     6 Ss   Wed Nov  8 00:27:55 2026").unwrap();
        let identity = Identity { id: 7, started: 20_261_108_002_755 };
        assert_eq!(entry, Entry { identity, parent: 5, group: 6, session: 0 });
        for not_a_process in
            ["", "7 5 6 Z+ Wed Nov 18 00:27:55 2026", "7 5 6 S Wed Nox 18 00:27:55 2026", "7"]
        {
            assert_eq!(parse(not_a_process), None, "{not_a_process:?}");
        }
    }

    #[test]
    fn own_process_and_its_parent_are_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        let found = entry(own).unwrap();
        assert_eq!((found.identity.id, found.parent), (own, parent));
        let all = entries();
        assert_eq!(all[&own].parent, parent);
        assert!(found.identity.started > 20_260_000_000_000, "{found:?}");
        // No process has it: pids end at 4,194,304.
        assert_eq!(entry(i32::MAX), None);
    }

    #[test]
    fn signal_reaches_only_the_process_with_the_same_start_time() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = entry(i32::try_from(child.id()).unwrap()).unwrap().identity;
        signal(Identity { started: process.started - 1, ..process }, Signal::KILL);
        assert!(child.try_wait().unwrap().is_none(), "it has another start time");
        signal(process, Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }
}
