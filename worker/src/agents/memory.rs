//! How much memory an agent uses, with all that it has started, by what `/proc` says.

use std::collections::HashSet;
use std::fs;

/// A process.
struct Process {
    id: u32,
    parent: u32,
    group: u32,
}

/// The resident memory of the processes in the agent's group and of their descendants. `None` if there are none. It
/// reads one small file per process of the system: milliseconds.
pub fn used_bytes(agent: u32) -> Option<u64> {
    let numbers =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let processes: Vec<Process> = numbers.filter_map(process).collect();
    let family = family(&processes, agent);
    let sizes: Vec<u64> = family.into_iter().filter_map(resident_bytes).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in brackets and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let (parent, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Process { id, parent, group })
}

fn family(processes: &[Process], agent: u32) -> HashSet<u32> {
    let mut family: HashSet<u32> = processes
        .iter()
        .filter(|process| process.group == agent || process.id == agent)
        .map(|process| process.id)
        .collect();
    // A child may be listed before its parent: until nobody joins any more.
    loop {
        let known = family.len();
        for process in processes {
            if family.contains(&process.parent) {
                family.insert(process.id);
            }
        }
        if family.len() == known {
            return family;
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
    fn an_agent_is_its_group_and_whoever_descends_from_it() {
        let process = |id, parent, group| Process { id, parent, group };
        let processes = [
            process(12, 11, 12),
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(13, 1, 10),
            process(20, 1, 20),
        ];
        assert_eq!(family(&processes, 10), HashSet::from([10, 11, 12, 13]));
        assert!(used_bytes(std::process::id()).unwrap() > 1024 * 1024, "this test uses some");
        assert_eq!(used_bytes(u32::MAX), None);
    }
}
