//! A provider whose sandboxes are directories of this machine, with real workers, which can be killed.

use domain::SandboxId;
use futures_util::FutureExt;
use futures_util::future::ready;
use providers::{Deletion, Found, Link, Listed, ProviderFuture, SandboxProvider, SandboxSpec, State, Tail};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A worker that has not exited this long after a signal is killed. It has 9 seconds to save its work.
const GRACE_PERIOD: Duration = Duration::from_secs(12);

#[derive(Debug)]
pub struct Machines {
    folder: TempDir,
    all: Mutex<BTreeMap<SandboxId, Machine>>,
}

#[derive(Debug)]
struct Machine {
    directory: PathBuf,
    variables: BTreeMap<String, String>,
    worker: Option<Child>,
    terminated_at: Option<Instant>,
}

impl Machine {
    /// Starts the worker, also again in the directories that an earlier one has left.
    fn start(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(self.directory.join("log")).unwrap();
        let mut worker = Command::new(env!("CARGO_BIN_EXE_sunaba"));
        worker.arg("worker").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").envs(&self.variables);
        let directories = [
            ("HOME", "home"),
            ("AGENT_HOME", "home"),
            ("TMPDIR", "tmp"),
            ("STATE_DIR", "state"),
            ("CWD", "workspace"),
        ];
        for (variable, name) in directories {
            let directory = self.directory.join(name);
            fs::create_dir_all(&directory).unwrap();
            worker.env(variable, directory);
        }
        worker.current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.worker = Some(worker.spawn().unwrap());
    }

    fn is_running(&mut self) -> bool {
        self.worker.as_mut().is_some_and(|worker| worker.try_wait().unwrap().is_none())
    }

    fn kill(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
    }

    /// Asks the worker to exit, and kills it if it does not.
    fn stop(&mut self) {
        let Some(worker) = &self.worker else { return };
        let Some(since) = self.terminated_at else {
            let id = worker.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
            self.terminated_at = Some(Instant::now());
            return;
        };
        if since.elapsed() > GRACE_PERIOD {
            self.kill();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machines {
    pub fn new() -> Self {
        Self { folder: TempDir::with_prefix("machines-").unwrap(), all: Mutex::default() }
    }

    /// Writes a script, and returns the agent that plays it.
    pub fn write_script(&self, steps: &[Value]) -> String {
        let path = self.folder.path().join("script.jsonl");
        let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
        fs::write(&path, lines.concat()).unwrap();
        format!("scripted:{}", path.display())
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub fn has_running_workers(&self) -> bool {
        self.all().values_mut().any(Machine::is_running)
    }

    /// Kills a running worker. It is restarted, or stays dead, or is lost with its machine. Returns whether one was running.
    pub fn kill_one(&self, random: &mut StdRng) -> bool {
        let mut all = self.all();
        let running: Vec<SandboxId> =
            all.iter_mut().filter_map(|(name, machine)| machine.is_running().then(|| name.clone())).collect();
        let Some(name) = running.choose(random) else { return false };
        let machine = all.get_mut(name).expect("it was listed");
        machine.kill();
        match random.random_range(0..3) {
            0 if machine.terminated_at.is_none() => machine.start(),
            1 => {
                let lost = all.remove(name).expect("it was listed");
                remove(&lost.directory);
            }
            _ => {}
        }
        true
    }

    /// What the workers of the remaining machines have logged.
    pub fn logs(&self) -> String {
        let all = self.all();
        let logs = all.iter().map(|(name, machine)| {
            let log = fs::read_to_string(machine.directory.join("log")).unwrap_or_default();
            format!("{name}:\n{log}\n")
        });
        logs.collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Machine>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, name: &SandboxId) -> Option<Found> {
        let (name, provider_id) = (name.clone(), name.to_string());
        let found = Found { name, provider_id, state: State::Ready, actual_resources: None };
        self.all().contains_key(&found.name).then_some(found)
    }

    /// Whether there is no machine of this name any more.
    fn try_delete(&self, name: &SandboxId) -> bool {
        let mut all = self.all();
        let Some(machine) = all.get_mut(name) else { return true };
        if machine.is_running() {
            machine.stop();
            return false;
        }
        remove(&machine.directory);
        all.remove(name);
        true
    }
}

/// The agent of a worker that was killed may still write for a moment.
fn remove(directory: &Path) {
    while let Err(error) = fs::remove_dir_all(directory) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{}: {error}", directory.display());
    }
}

impl SandboxProvider for Machines {
    fn name(&self) -> &'static str {
        "machines"
    }

    fn isolation(&self) -> String {
        "Workers isolate their agents.".to_owned()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        let directory = self.folder.path().join(spec.name.as_str());
        fs::create_dir_all(&directory).unwrap();
        let machine = Machine { directory, variables: BTreeMap::new(), worker: None, terminated_at: None };
        self.all().entry(spec.name.clone()).or_insert(machine);
        ready(Ok(self.found(&spec.name).expect("it was created"))).boxed()
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        ready(Ok(self.found(name))).boxed()
    }

    fn upload<'a>(&'a self, _: &'a Found) -> ProviderFuture<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()> {
        if let Some(machine) = self.all().get_mut(&found.name)
            && machine.worker.is_none()
        {
            machine.variables.clone_from(variables);
            machine.start();
        }
        ready(Ok(())).boxed()
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        async move {
            while !self.try_delete(name) {
                sleep(POLL_INTERVAL).await;
            }
            Ok(Deletion::Done)
        }
        .boxed()
    }

    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>> {
        let all = self.all();
        let listed = all.keys().map(|name| Listed {
            name: name.clone(),
            provider_id: name.to_string(),
            created_at_secs: None,
        });
        ready(Ok(listed.collect())).boxed()
    }

    fn worker_exit<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<String>> {
        let mut all = self.all();
        let has_exited =
            all.get_mut(name).is_some_and(|machine| machine.worker.is_some() && !machine.is_running());
        ready(Ok(has_exited.then(|| "The worker was killed.".to_owned()))).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        ready(Ok(Tail::default())).boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> ProviderFuture<'a, Option<Link>> {
        ready(Ok(None)).boxed()
    }
}
