//! Sandboxes as local processes: a directory and a process group each.
//!
//! A worker outlives the plane that started it. A restarted plane finds it by a file in the sandbox's directory, and finds
//! its descendants by an environment variable that names that directory. That also finds every process to kill when the
//! sandbox is deleted, even one that left the process group.
//!
//! **Invariant:** the variables of a sandbox, which include secrets, are passed to the worker through a pipe. They are never
//! written to disk, and are not in its environment.
//!
//! Deliberately absent: images, snapshots, disk limits and a maximum lifetime. Two planes must not share a directory.

mod directory;
mod exits;
mod isolation;
mod launch;
mod locks;
mod table;

use crate::{
    Deletion, Failure, Found, LOG_BYTES, Link, Listed, ProviderFuture, SandboxProvider, SandboxSpec, State,
    Tail,
};
use directory::SandboxDirectory;
use domain::SandboxId;
use exits::{UNKNOWN_EXIT, WorkerExits, describe};
pub use isolation::Isolation;
use locks::Locks;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use table::Identity;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Timeout of every call except `destroy`.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long [`SandboxProvider::destroy`] waits for processes to exit before it returns [`Deletion::InProgress`].
const DESTROY_TIMEOUT: Duration = Duration::from_millis(2500);

/// How often `destroy` checks for remaining processes.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Resource limits on this system, as a part of [`SandboxProvider::isolation`].
#[cfg(target_os = "linux")]
const LIMITS: &str = "Memory (per process, not in total), core dumps and CPU affinity are limited; disk is not. All \
    of its processes are killed with it, except for a process that has detached from its parents and cleared its \
    environment.";
#[cfg(not(target_os = "linux"))]
const LIMITS: &str = "On this system memory, CPU and disk are not limited. All of its processes are killed with it, \
    except for a process that has left its process group and whose parent has exited.";

/// [`SandboxProvider::name`].
pub const NAME: &str = "process";

#[derive(Debug, Clone)]
pub struct Options {
    /// Parent of the sandbox directories.
    pub folder: PathBuf,
    /// [`SandboxProvider::list`] lists the sandboxes of this plane.
    pub plane: String,
    /// The worker executable and its arguments.
    pub worker: Vec<OsString>,
    /// Base environment of every worker: `PATH`, `LANG` and the like of the plane's own.
    pub environment: BTreeMap<String, String>,
    pub isolation: Isolation,
    /// Directories that agents must not see, besides those of other sandboxes: the plane's own.
    pub hidden: Vec<PathBuf>,
    /// Shutdown grace period of a worker between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl Options {
    /// Defaults for everything but these three.
    pub fn new(folder: impl Into<PathBuf>, plane: impl Into<String>, worker: Vec<OsString>) -> Self {
        Self {
            folder: folder.into(),
            plane: plane.into(),
            worker,
            environment: BTreeMap::new(),
            isolation: Isolation::Auto,
            hidden: Vec::new(),
            // A worker takes up to nine seconds to save the agent's work and send its last events.
            grace: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub struct Process {
    options: Options,
    locks: Locks,
    deletions: Mutex<BTreeMap<SandboxId, PendingDeletion>>,
    /// Each waits for a worker to exit, so that none remains as a zombie.
    waiters: Mutex<JoinSet<()>>,
    exits: WorkerExits,
}

#[derive(Debug)]
struct PendingDeletion {
    since: Instant,
    sigterm_sent: bool,
    /// All processes ever found to belong to the sandbox, including those that can no longer be attributed to it.
    processes: BTreeSet<Identity>,
}

impl Process {
    /// # Errors
    /// If the directory has no absolute path, or the worker is empty.
    pub fn new(mut options: Options) -> io::Result<Self> {
        if options.worker.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the worker executable is not configured",
            ));
        }
        // The worker starts in another directory. A bare name is looked up in PATH.
        let program = PathBuf::from(&options.worker[0]);
        if program.components().count() > 1 {
            options.worker[0] = std::path::absolute(program)?.into();
        }
        options.folder = std::path::absolute(&options.folder)?;
        for hidden in &mut options.hidden {
            *hidden = std::path::absolute(&hidden)?;
        }
        let (locks, deletions, waiters, exits) = Default::default();
        Ok(Self { options, locks, deletions, waiters, exits })
    }

    fn directory(&self, name: &SandboxId) -> SandboxDirectory {
        SandboxDirectory::new(&self.options.folder, name)
    }

    fn state(&self, name: &SandboxId) -> State {
        match lock(&self.deletions).contains_key(name) {
            true => State::Deleting,
            false => State::Ready,
        }
    }

    fn found(&self, name: &SandboxId) -> Found {
        let provider_id = self.directory(name).folder().display().to_string();
        Found { name: name.clone(), provider_id, state: self.state(name), actual_resources: None }
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<Found, Failure> {
        let _guard = self.lock(&spec.name).await?;
        let (directory, copy) = (self.directory(&spec.name), spec.clone());
        let create = move || if directory.metadata().is_some() { Ok(()) } else { directory.create(&copy) };
        blocking("creating the directory", create).await?;
        Ok(self.found(&spec.name))
    }

    async fn launch(&self, name: &SandboxId, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
        let _guard = self.lock(name).await?;
        let directory = self.directory(name);
        let read = move || Ok((directory.metadata(), directory.worker().filter(|worker| worker.is_alive())));
        let (metadata, worker) = blocking("reading the directory", read).await?;
        let Some(metadata) = metadata.filter(|_| self.state(name) == State::Ready) else {
            return Err(Failure::refused(format!("the sandbox {name} does not exist or is being deleted")));
        };
        if worker.is_some() {
            return Ok(());
        }
        let mut child =
            launch::start(&self.options, &self.directory(name), name, &metadata, variables).await?;
        let (name, exits) = (name.clone(), self.exits.clone());
        exits.started(&name);
        let mut waiters = lock(&self.waiters);
        while waiters.try_join_next().is_some() {}
        waiters.spawn(async move {
            let exit = match child.wait().await {
                Ok(status) => {
                    tracing::info!(sandbox.id = %name, "Worker of sandbox {name} exited: {status}");
                    describe(status)
                }
                Err(error) => {
                    tracing::warn!(sandbox.id = %name, %error, "Cannot determine the exit status of the worker of sandbox {name}");
                    UNKNOWN_EXIT.to_owned()
                }
            };
            exits.exited(&name, exit);
        });
        Ok(())
    }

    async fn find_worker_exit(&self, name: &SandboxId) -> Result<Option<String>, Failure> {
        match self.exits.get(name) {
            Some(exit) => Ok(exit),
            // Started by an earlier plane process, perhaps before a reboot.
            None => {
                let directory = self.directory(name);
                let check = move || {
                    Ok(directory.was_started() && !directory.worker().is_some_and(Identity::is_alive))
                };
                Ok(blocking("looking for the worker", check).await?.then(|| UNKNOWN_EXIT.to_owned()))
            }
        }
    }

    async fn lock(&self, name: &SandboxId) -> Result<locks::Guard, Failure> {
        let guard = timeout(CALL_TIMEOUT, self.locks.lock(name)).await;
        guard.map_err(|_| Failure::unreachable(format!("another operation on sandbox {name} is in progress")))
    }

    async fn delete(&self, name: &SandboxId) -> Result<Deletion, Failure> {
        let deadline = Instant::now() + DESTROY_TIMEOUT;
        let Ok(guard) = timeout_at(deadline, self.locks.lock(name)).await else {
            return Ok(Deletion::InProgress);
        };
        let directory = self.directory(name);
        loop {
            if !directory.exists() {
                lock(&self.deletions).remove(name);
                self.exits.forget(name);
                return Ok(Deletion::Done);
            }
            if self.kill_processes(name).await? == 0 {
                break;
            }
            if Instant::now() >= deadline {
                return Ok(Deletion::InProgress);
            }
            sleep(POLL_INTERVAL).await;
        }
        // The guard moves into the task, so that another call waits for this removal instead of starting its own.
        let remove = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            directory.remove()
        });
        match timeout_at(deadline.max(Instant::now() + POLL_INTERVAL), remove).await {
            Err(_) => return Ok(Deletion::InProgress),
            Ok(done) => {
                done.map_err(io::Error::from)
                    .flatten()
                    .map_err(|error| failed("removing the directory", &error))?;
            }
        }
        lock(&self.deletions).remove(name);
        self.exits.forget(name);
        Ok(Deletion::Done)
    }

    /// Signals the processes of a sandbox: SIGTERM first, SIGKILL after the grace period. Returns how many are left.
    async fn kill_processes(&self, name: &SandboxId) -> Result<usize, Failure> {
        let directory = self.directory(name);
        let known = {
            let mut deletions = lock(&self.deletions);
            let new =
                || PendingDeletion { since: Instant::now(), sigterm_sent: false, processes: BTreeSet::new() };
            deletions.entry(name.clone()).or_insert_with(new).processes.clone()
        };
        let find = move || {
            let worker = directory.worker();
            Ok((worker, table::members(&directory.folder(), worker, &known)))
        };
        let (worker, members) = blocking("looking for processes", find).await?;
        let worker = worker.filter(|worker| members.contains(worker));
        let mut deletions = lock(&self.deletions);
        let Some(deletion) = deletions.get_mut(name) else { return Ok(members.len()) };
        deletion.processes.extend(&members);
        match worker.filter(|_| deletion.since.elapsed() < self.options.grace) {
            Some(worker) if !deletion.sigterm_sent => {
                deletion.sigterm_sent = true;
                if let Some(group) = Pid::from_raw(worker.id) {
                    // An error means that the group has no process left, which is fine.
                    let _ = kill_process_group(group, Signal::TERM);
                }
            }
            // Still in its grace period.
            Some(_) => {}
            None => members.iter().for_each(|member| member.signal(Signal::KILL)),
        }
        Ok(members.len())
    }

    async fn listed(&self) -> Result<Vec<Listed>, Failure> {
        let (folder, plane) = (self.options.folder.clone(), self.options.plane.clone());
        let list = move || {
            let found = directory::all(&folder)?.into_iter().filter(|(_, directory)| {
                // A directory without metadata is left over from an interrupted creation or deletion: list it for cleanup.
                directory.metadata().is_none_or(|metadata| metadata.plane == plane)
            });
            let listed = found.map(|(name, directory)| Listed {
                name,
                provider_id: directory.folder().display().to_string(),
                created_at_secs: directory.created_at_secs(),
            });
            Ok(listed.collect())
        };
        blocking("listing the directories", list).await
    }
}

impl SandboxProvider for Process {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> String {
        let access = self.options.isolation.access();
        format!("Each sandbox is a directory and a process group of the plane's own user: {access}. {LIMITS}")
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        Box::pin(self.create_sandbox(spec))
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        Box::pin(async move {
            let directory = self.directory(name);
            let metadata = blocking("reading the directory", move || Ok(directory.metadata())).await?;
            Ok(metadata.map(|_| self.found(name)))
        })
    }

    fn upload<'a>(&'a self, _found: &'a Found) -> ProviderFuture<'a, ()> {
        Box::pin(async move {
            let program = PathBuf::from(&self.options.worker[0]);
            // A bare name is looked up in PATH at start.
            let missing = program.components().count() > 1 && !program.is_file();
            match missing {
                true => Err(Failure::refused(format!(
                    "the worker executable {} does not exist",
                    program.display()
                ))),
                false => Ok(()),
            }
        })
    }

    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()> {
        Box::pin(self.launch(&found.name, variables))
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        Box::pin(self.delete(name))
    }

    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>> {
        Box::pin(self.listed())
    }

    fn worker_exit<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<String>> {
        Box::pin(self.find_worker_exit(name))
    }

    fn logs<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        let directory = self.directory(name);
        Box::pin(blocking("reading the log", move || directory.tail(LOG_BYTES)))
    }

    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> ProviderFuture<'a, Option<Link>> {
        Box::pin(async move {
            let link = Link { url: format!("http://127.0.0.1:{port}"), token: None };
            Ok(self.find(name).await?.map(|_| link))
        })
    }
}

/// Runs file operations on a blocking thread, with a timeout.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match timeout(CALL_TIMEOUT, tokio::task::spawn_blocking(work)).await {
        Err(_) => Err(Failure::unreachable(format!("{what} took longer than {CALL_TIMEOUT:?}"))),
        Ok(done) => done.map_err(io::Error::from).flatten().map_err(|error| failed(what, &error)),
    }
}

/// I/O errors are never permanent: a full disk or wrong permissions can be fixed.
fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::unreachable(format!("{what} failed: {error}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
