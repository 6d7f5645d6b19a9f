use crate::policy::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lowers the limits. Those that are lower already stay.
pub(super) fn set(limits: &Limits) -> std::io::Result<()> {
    lower(Resource::Core, 0)?;
    lower(Resource::Nproc, limits.processes)?;
    lower(Resource::Fsize, limits.file_bytes)?;
    match limits.memory_bytes {
        Some(bytes) => lower(Resource::Data, bytes),
        None => Ok(()),
    }
}

fn lower(resource: Resource, to: u64) -> std::io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(resource);
    let lower = |limit: Option<u64>| Some(limit.map_or(to, |limit| limit.min(to)));
    Ok(setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) })?)
}
