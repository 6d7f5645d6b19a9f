//! Memory usage of an agent and its descendants, read from `/proc`.

use crate::proc::{Process, processes, resident_bytes};
use std::collections::HashSet;

/// Resident memory of the agent's process group and all descendants. `None` if no such process exists. Reads one small
/// file per process on the system, which takes milliseconds.
pub fn used_bytes(agent: u32) -> Option<u64> {
    let processes = processes();
    let members = process_tree(&processes, agent);
    let sizes: Vec<u64> = members.into_iter().filter_map(resident_bytes).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

fn process_tree(processes: &[Process], agent: u32) -> HashSet<u32> {
    let mut members: HashSet<u32> = processes
        .iter()
        .filter(|process| process.group == agent || process.pid == agent)
        .map(|process| process.pid)
        .collect();
    // A child may be listed before its parent, so repeat until no process is added.
    loop {
        let known = members.len();
        for process in processes {
            if members.contains(&process.parent) {
                members.insert(process.pid);
            }
        }
        if members.len() == known {
            return members;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_tree_is_the_group_and_its_descendants() {
        let process = |pid, parent, group| Process {
            user: 0,
            pid,
            parent,
            group,
            session: group,
            start: 0,
            is_zombie: false,
            command: String::new(),
        };
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
