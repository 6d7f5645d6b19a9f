//! Starting a worker: held back until its limits are set and it is noted who it is.
//!
//! A shell is started in its place and waits for a line. If the plane dies before that line is written, the shell reads
//! the end of its input and ends; afterwards the note is there. So no worker runs that nobody knows of, and none runs a
//! moment without its limits.

use super::place::{Note, Place};
use super::table::{Identity, MARK};
use super::{Options, failed};
use crate::Failure;
use domain::SandboxId;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Waits for a line, then becomes the worker.
const HELD_BACK: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Where programs are when nobody says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Within this time a shell reads a line.
const SOON: Duration = Duration::from_secs(5);

/// Starts the worker of a sandbox.
pub(super) async fn start(
    options: &Options,
    place: &Place,
    name: &SandboxId,
    note: &Note,
    variables: &BTreeMap<String, String>,
) -> Result<Child, Failure> {
    let not_started = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => Failure::refused("a variable's name or value is not allowed"),
        _ => failed("starting the worker", &error),
    };
    let log = OpenOptions::new().create(true).append(true).open(place.log()).map_err(not_started)?;
    let errors = log.try_clone().map_err(not_started)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", HELD_BACK, "sh"]).args(&options.worker);
    command.env_clear().envs(environment(options, place, name, variables));
    command.current_dir(place.inside("workspace"));
    command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(not_started)?;
    let mut go = child.stdin.take().expect("its standard input is a pipe");
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let identity = Identity::of(id).ok_or_else(|| Failure::unreachable("the worker ended as it began"))?;
    limit(id, name, note).map_err(|error| failed("limiting the worker", &error))?;
    place.note_worker(identity).map_err(|error| failed("noting the worker", &error))?;
    let said = timeout(SOON, go.write_all(b"go\n")).await;
    said.map_err(io::Error::from).flatten().map_err(|error| failed("starting the worker", &error))?;
    Ok(child)
}

/// A short list: nothing of the plane's own environment but what the options say.
fn environment(
    options: &Options,
    place: &Place,
    name: &SandboxId,
    variables: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let path = |inner: &str| place.inside(inner).display().to_string();
    let mut environment = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    environment.extend(options.environment.clone());
    for (variable, folder) in
        [("HOME", "home"), ("TMPDIR", "tmp"), ("STATE_DIR", "state"), ("CWD", "workspace")]
    {
        environment.insert(variable.to_owned(), path(folder));
    }
    if variables.contains_key("WORKSPACE_PATH") {
        environment.remove("CWD");
    }
    environment.extend(variables.clone());
    // Whoever may say what a worker does may not let it out.
    environment.insert("ISOLATION".to_owned(), options.isolation.as_str().to_owned());
    // By these it is found again, whatever else it is told.
    environment.insert("SANDBOX_ID".to_owned(), name.to_string());
    environment.insert(MARK.to_owned(), place.folder().display().to_string());
    environment
}

/// Limits a process and all that it will start. Each of them is limited for itself: there is no sum.
fn limit(id: i32, name: &SandboxId, note: &Note) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(id) else { return Ok(()) };
    let to = |bytes: u64| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    prlimit(Some(pid), Resource::Core, to(0))?;
    if note.memory_gb > 0 {
        prlimit(Some(pid), Resource::Data, to(u64::from(note.memory_gb) << 30))?;
    }
    let allowed = sched_getaffinity(Some(pid))?;
    if let Some(chosen) = choose(&allowed, note.cpu, name) {
        sched_setaffinity(Some(pid), &chosen)?;
    }
    Ok(())
}

/// So many of the processors that are allowed, beginning somewhere that depends on the name, so that not all sandboxes
/// sit on the first ones. `None` if there are no more than that.
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
    fn as_many_processors_are_chosen_as_were_asked_for_and_only_allowed_ones() {
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
