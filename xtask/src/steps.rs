//! Steps of a command: each is named before it runs, timed, and listed in a table at the end.
//!
//! A [`Lane`] runs steps beside the others, with the lowest priority: a release build takes what the tests leave of the
//! machine and delays none of them. Its output goes into a file, which is shown if it fails.

use crate::{Outcome, complain, say, target};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Timed {
    name: String,
    beside: bool,
    took: Duration,
}

static STEPS: Mutex<Vec<Timed>> = Mutex::new(Vec::new());

/// The lane of this thread.
#[derive(Clone)]
struct Current {
    log: PathBuf,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// One step: its name before it and its time after it.
pub fn step(name: &str, command: Command) -> Outcome {
    timed(name, || run(command)).map_err(|why| format!("{name} failed: {why}"))
}

/// A step that is more than one command.
pub fn timed<T>(name: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let beside = CURRENT.with_borrow(Option::is_some);
    say(&format!("== {name}{}\n", if beside { ", beside the others" } else { "" }));
    let begun = Instant::now();
    let outcome = work();
    let took = begun.elapsed();
    let ended = if outcome.is_ok() { "took" } else { "failed after" };
    say(&format!("== {name} {ended} {}\n", words(took)));
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).push(Timed { name: name.to_owned(), beside, took });
    outcome
}

/// Runs a command. In a lane, with the lowest priority and its output in the lane's file.
pub fn run(mut command: Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    if let Some(current) = CURRENT.with_borrow(Clone::clone) {
        command = nice(&command);
        let log = File::options().append(true).create(true).open(&current.log);
        let log = log.map_err(|error| format!("{} cannot be written: {error}", current.log.display()))?;
        let copy = log.try_clone().map_err(|error| error.to_string())?;
        command.stdout(log).stderr(copy);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program} cannot be started: {error}")),
    }
}

/// The same command, behind `nice`.
fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// Steps that run beside the others.
pub struct Lane {
    log: PathBuf,
    thread: JoinHandle<Outcome>,
}

impl Lane {
    /// Starts the steps of `work`.
    pub fn start(name: &str, work: fn() -> Outcome) -> Result<Self, String> {
        let folder = target().join("logs");
        let log = folder.join(format!("{}.log", name.replace(' ', "-")));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&log, ""))
            .map_err(|error| format!("{} cannot be written: {error}", log.display()))?;
        let current = Current { log: log.clone() };
        let thread = std::thread::spawn(move || {
            CURRENT.set(Some(current));
            work()
        });
        Ok(Self { log, thread })
    }

    /// Waits for its end. Shows the end of its output if it failed.
    pub fn join(self) -> Outcome {
        let outcome = self.thread.join().unwrap_or_else(|_| Err("the lane panicked".to_owned()));
        if outcome.is_err() {
            let mut text = String::new();
            // What cannot be read is not shown; the failure itself is reported all the same.
            drop(File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text)));
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            complain(&format!("the end of {}:\n{}", self.log.display(), last.join("\n")));
        }
        outcome
    }
}

/// The times of all steps so far, and of everything.
pub fn table(begun: Instant) -> String {
    let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = format!("\n{:<44}{:>14}\n", "step", "time");
    for Timed { name, beside, took } in steps.iter() {
        let beside = if *beside { "  beside the others" } else { "" };
        text += &format!("{name:<44}{:>14}{beside}\n", words(*took));
    }
    text + &format!("{:<44}{:>14}\n", "everything", words(begun.elapsed()))
}

/// A time for people.
pub fn words(time: Duration) -> String {
    let secs = time.as_secs();
    if secs < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", secs / 60, secs % 60)
    }
}
