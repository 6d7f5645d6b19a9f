//! Sandboxes that are processes of this machine: a folder and a process group each.
//!
//! A worker outlives the plane that started it, and a plane that is started again finds it: by a note in the folder, and
//! by the folder's name in the environment of everything that the worker starts. That is also how everything of a sandbox
//! is found when it ends, wherever in the machine's processes it went.
//!
//! **Invariant:** variables, among which there are secrets, are given to the worker's process and are written nowhere.
//!
//! Deliberately absent: images, snapshots, a limit of the disk, and an end after a lifetime, which is for the plane's own
//! sweep. Two planes must not share a folder.

mod ends;
mod isolation;
mod launch;
mod locks;
mod place;
mod table;

use crate::{
    Answer, Failure, Found, Gone, LOG_BYTES, Link, Listed, SandboxProvider, SandboxSpec, State, Tail,
};
use domain::SandboxId;
use ends::{Ends, UNSEEN, in_words};
pub use isolation::Isolation;
use locks::Locks;
use place::Place;
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

/// Within this time everything but an end is answered.
const SOON: Duration = Duration::from_secs(10);

/// For so long [`SandboxProvider::destroy`] waits for an end before it answers that there is none yet.
const PATIENCE: Duration = Duration::from_millis(2500);

/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What is limited on this system, and what is not.
#[cfg(target_os = "linux")]
const LIMITS: &str = "Memory (data of each process, not of all together), core dumps and the choice of processors are \
    limited; disk is not. Everything that it started is ended with it, except for a process that has left its parents \
    and its environment behind before anybody looked.";
#[cfg(not(target_os = "linux"))]
const LIMITS: &str = "On this system nothing is limited: not memory, not processors, not disk. Everything that it \
    started is ended with it, except for a process that has left its group and whose parent has ended.";

/// How to run sandboxes on this machine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where their folders are.
    pub folder: PathBuf,
    /// Which plane's those are that [`SandboxProvider::list`] lists.
    pub plane: String,
    /// The program that is a worker, and its arguments.
    pub worker: Vec<OsString>,
    /// What a worker has in its environment whatever it is told: `PATH`, `LANG` and the like of the plane's own.
    pub environment: BTreeMap<String, String>,
    /// What a worker and its agent are kept inside of.
    pub isolation: Isolation,
    /// How long a worker that was told to end may take to say its last word.
    pub grace: Duration,
}

impl Options {
    /// Sandboxes of this plane in this folder, with this worker, and the usual for the rest.
    pub fn new(folder: impl Into<PathBuf>, plane: impl Into<String>, worker: Vec<OsString>) -> Self {
        Self {
            folder: folder.into(),
            plane: plane.into(),
            worker,
            environment: BTreeMap::new(),
            isolation: Isolation::None,
            grace: Duration::from_secs(5),
        }
    }
}

/// The provider.
#[derive(Debug)]
pub struct Process {
    options: Options,
    locks: Locks,
    ending: Mutex<BTreeMap<SandboxId, Ending>>,
    /// Each waits for a worker to end, so that none stays behind as a zombie.
    waiters: Mutex<JoinSet<()>>,
    ends: Ends,
}

/// A sandbox that was told to end.
#[derive(Debug)]
struct Ending {
    since: Instant,
    told: bool,
    /// Everybody who was seen to belong to it: also whoever has lost every trace of it since.
    seen: BTreeSet<Identity>,
}

impl Process {
    /// A provider with these options.
    ///
    /// # Errors
    /// When the folder cannot be named from everywhere, no worker is given, or this kernel cannot do the isolation that is
    /// asked for: nobody gets less than that without knowing.
    pub fn new(mut options: Options) -> io::Result<Self> {
        if options.worker.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the worker's program is not given"));
        }
        options.isolation.probe()?;
        // It is started in another folder. A bare name is looked for in PATH.
        let program = PathBuf::from(&options.worker[0]);
        if program.components().count() > 1 {
            options.worker[0] = std::path::absolute(program)?.into();
        }
        options.folder = std::path::absolute(&options.folder)?;
        let (locks, ending, waiters, ends) = Default::default();
        Ok(Self { options, locks, ending, waiters, ends })
    }

    fn place(&self, name: &SandboxId) -> Place {
        Place::new(&self.options.folder, name)
    }

    fn state(&self, name: &SandboxId) -> State {
        match lock(&self.ending).contains_key(name) {
            true => State::Going,
            false => State::Ready,
        }
    }

    fn found(&self, name: &SandboxId) -> Found {
        let provider_id = self.place(name).folder().display().to_string();
        Found { name: name.clone(), provider_id, state: self.state(name), made_of: None }
    }

    async fn make(&self, wish: &SandboxSpec) -> Result<Found, Failure> {
        let _turn = self.turn(&wish.name).await?;
        let (place, copy) = (self.place(&wish.name), wish.clone());
        let made = move || if place.note().is_some() { Ok(()) } else { place.make(&copy) };
        blocking("making the folder", made).await?;
        Ok(self.found(&wish.name))
    }

    async fn launch(&self, name: &SandboxId, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
        let _turn = self.turn(name).await?;
        let place = self.place(name);
        let read = move || Ok((place.note(), place.worker().filter(|worker| worker.is_alive())));
        let (note, worker) = blocking("reading the folder", read).await?;
        let Some(note) = note.filter(|_| self.state(name) == State::Ready) else {
            return Err(Failure::refused(format!("the sandbox {name} is not there, or is ending")));
        };
        if worker.is_some() {
            return Ok(());
        }
        let mut child = launch::start(&self.options, &self.place(name), name, &note, variables).await?;
        let (name, ends) = (name.clone(), self.ends.clone());
        ends.begin(&name);
        let mut waiters = lock(&self.waiters);
        while waiters.try_join_next().is_some() {}
        waiters.spawn(async move {
            let end = match child.wait().await {
                Ok(status) => {
                    tracing::info!(sandbox.id = %name, "The worker of {name} ended: {status}");
                    in_words(status)
                }
                Err(error) => {
                    tracing::warn!(sandbox.id = %name, %error, "Lost sight of the worker of {name}");
                    UNSEEN.to_owned()
                }
            };
            ends.note(&name, end);
        });
        Ok(())
    }

    async fn worker_end(&self, name: &SandboxId) -> Result<Option<String>, Failure> {
        match self.ends.of(name) {
            // Ours: whoever waits for it says when it has ended, and how.
            Some(end) => Ok(end),
            // It was started by a plane that is gone, and perhaps before the machine was started again.
            None => {
                let place = self.place(name);
                let look = move || Ok(place.was_started() && !place.worker().is_some_and(Identity::is_alive));
                Ok(blocking("looking for the worker", look).await?.then(|| UNSEEN.to_owned()))
            }
        }
    }

    async fn turn(&self, name: &SandboxId) -> Result<locks::Turn, Failure> {
        let turn = timeout(SOON, self.locks.turn(name)).await;
        turn.map_err(|_| Failure::unreachable(format!("something else is still being done to {name}")))
    }

    async fn end(&self, name: &SandboxId) -> Result<Gone, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let Ok(turn) = timeout_at(deadline, self.locks.turn(name)).await else { return Ok(Gone::NotYet) };
        let place = self.place(name);
        loop {
            if !place.exists() {
                lock(&self.ending).remove(name);
                self.ends.forget(name);
                return Ok(Gone::Yes);
            }
            if self.end_members(name).await? == 0 {
                break;
            }
            if Instant::now() >= deadline {
                return Ok(Gone::NotYet);
            }
            sleep(LOOK_EVERY).await;
        }
        // The turn goes along: whoever calls again before it is done waits for it, and does not begin anew.
        let remove = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            place.remove()
        });
        match timeout_at(deadline.max(Instant::now() + LOOK_EVERY), remove).await {
            Err(_) => return Ok(Gone::NotYet),
            Ok(done) => {
                done.map_err(io::Error::from).flatten().map_err(|error| failed("removing", &error))?;
            }
        }
        lock(&self.ending).remove(name);
        self.ends.forget(name);
        Ok(Gone::Yes)
    }

    /// One step towards the end of everybody who belongs to a sandbox. How many there still were.
    async fn end_members(&self, name: &SandboxId) -> Result<usize, Failure> {
        let place = self.place(name);
        let seen = {
            let mut ending = lock(&self.ending);
            let new = || Ending { since: Instant::now(), told: false, seen: BTreeSet::new() };
            ending.entry(name.clone()).or_insert_with(new).seen.clone()
        };
        let look = move || {
            let worker = place.worker();
            Ok((worker, table::members(&place.folder(), worker, &seen)))
        };
        let (worker, members) = blocking("looking for processes", look).await?;
        let worker = worker.filter(|worker| members.contains(worker));
        let mut endings = lock(&self.ending);
        let Some(ending) = endings.get_mut(name) else { return Ok(members.len()) };
        ending.seen.extend(&members);
        match worker.filter(|_| ending.since.elapsed() < self.options.grace) {
            Some(worker) if !ending.told => {
                ending.told = true;
                if let Some(group) = Pid::from_raw(worker.id) {
                    // Nobody left to hear it is what was wanted.
                    let _ = kill_process_group(group, Signal::TERM);
                }
            }
            // It has its grace.
            Some(_) => {}
            None => members.iter().for_each(|member| member.signal(Signal::KILL)),
        }
        Ok(members.len())
    }

    async fn listed(&self) -> Result<Vec<Listed>, Failure> {
        let (folder, plane) = (self.options.folder.clone(), self.options.plane.clone());
        let list = move || {
            let found = place::all(&folder)?.into_iter().filter(|(_, place)| {
                // One without a note was half made or is half gone: ours to take away.
                place.note().is_none_or(|note| note.plane == plane)
            });
            let listed = found.map(|(name, place)| Listed {
                name,
                provider_id: place.folder().display().to_string(),
                created_at_secs: place.created_at_secs(),
            });
            Ok(listed.collect())
        };
        blocking("listing the folders", list).await
    }
}

impl SandboxProvider for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn isolation(&self) -> String {
        let reach = self.options.isolation.reach();
        format!(
            "Each sandbox is a folder and a group of processes of the plane's own user: {reach}. {LIMITS}"
        )
    }

    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found> {
        Box::pin(self.make(wish))
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let place = self.place(name);
            let note = blocking("reading the folder", move || Ok(place.note())).await?;
            Ok(note.map(|_| self.found(name)))
        })
    }

    fn upload<'a>(&'a self, _found: &'a Found) -> Answer<'a, ()> {
        Box::pin(async move {
            let program = PathBuf::from(&self.options.worker[0]);
            // A bare name is looked for in PATH when it is started.
            let missing = program.components().count() > 1 && !program.is_file();
            match missing {
                true => Err(Failure::refused(format!("the worker {} is not there", program.display()))),
                false => Ok(()),
            }
        })
    }

    fn start<'a>(&'a self, found: &'a Found, variables: &'a BTreeMap<String, String>) -> Answer<'a, ()> {
        Box::pin(self.launch(&found.name, variables))
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Gone> {
        Box::pin(self.end(name))
    }

    fn list<'a>(&'a self) -> Answer<'a, Vec<Listed>> {
        Box::pin(self.listed())
    }

    fn ended<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<String>> {
        Box::pin(self.worker_end(name))
    }

    fn logs<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Tail> {
        let place = self.place(name);
        Box::pin(blocking("reading the log", move || place.tail(LOG_BYTES)))
    }

    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> Answer<'a, Option<Link>> {
        Box::pin(async move {
            let link = Link { url: format!("http://127.0.0.1:{port}"), token: None };
            Ok(self.find(name).await?.map(|_| link))
        })
    }
}

/// Does something with files where it holds up nobody else, and within a deadline.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match timeout(SOON, tokio::task::spawn_blocking(work)).await {
        Err(_) => Err(Failure::unreachable(format!("{what} took longer than {SOON:?}"))),
        Ok(done) => done.map_err(io::Error::from).flatten().map_err(|error| failed(what, &error)),
    }
}

/// A full disk may be emptied, and a folder of somebody else's be given back: nothing here is for ever.
fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::unreachable(format!("{what} failed: {error}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
