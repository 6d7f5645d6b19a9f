//! Memory usage of an agent and its descendants, read from `/proc`.

use std::collections::HashSet;
use std::fs;

struct Process {
    id: u32,
    parent: u32,
    group: u32,
}

/// Resident memory of the agent's process group and all descendants. `None` if no such process exists. Reads one small
/// file per process on the system, which takes milliseconds.
pub fn used_bytes(agent: u32) -> Option<u64> {
    let ids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let processes: Vec<Process> = ids.filter_map(process).collect();
    let members = process_tree(&processes, agent);
    let sizes: Vec<u64> = members.into_iter().filter_map(resident_bytes).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The command name is in parentheses and may contain any character, so start after the last one.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let (parent, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Process { id, parent, group })
}

fn process_tree(processes: &[Process], agent: u32) -> HashSet<u32> {
    let mut members: HashSet<u32> = processes
        .iter()
        .filter(|process| process.group == agent || process.id == agent)
        .map(|process| process.id)
        .collect();
    // A child may be listed before its parent, so repeat until no process is added.
    loop {
        let known = members.len();
        for process in processes {
            if members.contains(&process.parent) {
                members.insert(process.id);
            }
        }
        if members.len() == known {
            return members;
        }
    }
}

fn resident_bytes(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_tree_is_the_group_and_its_descendants() {
        let process = |id, parent, group| Process { id, parent, group };
        let processes = [
            process(12, 11, 12),
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(13, 1, 10),
            process(20, 1, 20),
        ];
        assert_eq!(process_tree(&processes, 10), HashSet::from([10, 11, 12, 13]));
        assert!(used_bytes(std::process::id()).unwrap() > 1024 * 1024, "this test process uses memory");
        assert_eq!(used_bytes(u32::MAX), None);
    }
}
