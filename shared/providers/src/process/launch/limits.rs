//! Resource limits of a worker's processes.

use crate::process::directory::Metadata;
use domain::SandboxId;
use std::io;

#[cfg(target_os = "linux")]
pub(super) use linux::set;

/// Only Linux lets a process limit another one. `SandboxProvider::isolation` says so to the operator.
#[cfg(not(target_os = "linux"))]
pub(super) fn set(_id: i32, _name: &SandboxId, _metadata: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Metadata, SandboxId, io};
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Limits a process and its descendants. Each process has its own limit; there is no total.
    pub(in crate::process::launch) fn set(id: i32, name: &SandboxId, metadata: &Metadata) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(id) else { return Ok(()) };
        let to = |bytes: u64| Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(pid), Resource::Core, to(0))?;
        if metadata.memory_gb > 0 {
            prlimit(Some(pid), Resource::Data, to(u64::from(metadata.memory_gb) << 30))?;
        }
        let allowed = sched_getaffinity(Some(pid))?;
        if let Some(chosen) = choose(&allowed, metadata.cpu, name) {
            sched_setaffinity(Some(pid), &chosen)?;
        }
        Ok(())
    }

    /// Picks `count` of the allowed CPUs, starting at an offset derived from the name, so that sandboxes spread over all CPUs.
    /// `None` if no more than `count` are allowed.
    fn choose(allowed: &CpuSet, count: u32, name: &SandboxId) -> Option<CpuSet> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        if count == 0 || count >= allowed.len() {
            return None;
        }
        let first = name.as_str().bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31) ^ usize::from(byte));
        let mut chosen = CpuSet::new();
        allowed.iter().cycle().skip(first % allowed.len()).take(count).for_each(|&cpu| chosen.set(cpu));
        Some(chosen)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn requested_number_of_allowed_cpus_is_chosen() {
            let mut allowed = CpuSet::new();
            [1, 3, 5, 7].into_iter().for_each(|cpu| allowed.set(cpu));
            for name in ["a", "b", "sandbox-17"] {
                let name = SandboxId::parse(name).unwrap();
                let chosen = choose(&allowed, 2, &name).unwrap();
                assert_eq!(chosen.count(), 2);
                assert!((0..CpuSet::MAX_CPU).all(|cpu| !chosen.is_set(cpu) || allowed.is_set(cpu)));
                assert!(choose(&allowed, 4, &name).is_none());
                assert!(choose(&allowed, 0, &name).is_none());
            }
        }
    }
}
