//! Steps of a command: each is announced, timed, and listed in a table at the end.
//!
//! [`Background`] runs steps concurrently with the lowest priority, so that a release build does not delay the tests. Its
//! output goes to a file, whose end is printed on failure.

use crate::{Outcome, print, print_error, target};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct TimedStep {
    name: String,
    in_background: bool,
    duration: Duration,
}

static STEPS: Mutex<Vec<TimedStep>> = Mutex::new(Vec::new());

thread_local! {
    /// The log file, if this thread runs steps in the background.
    static BACKGROUND_LOG: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Runs a command as a step.
pub fn step(name: &str, command: Command) -> Outcome {
    timed(name, || run(command)).map_err(|why| format!("{name} failed: {why}"))
}

/// Runs a step that consists of several commands.
pub fn timed<T>(name: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let in_background = BACKGROUND_LOG.with_borrow(Option::is_some);
    print(&format!("== {name}{}\n", if in_background { " (in background)" } else { "" }));
    let begun = Instant::now();
    let outcome = work();
    let duration = begun.elapsed();
    let ended = if outcome.is_ok() { "took" } else { "failed after" };
    print(&format!("== {name} {ended} {}\n", format_duration(duration)));
    let step = TimedStep { name: name.to_owned(), in_background, duration };
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    outcome
}

/// Runs a command. In the background, with the lowest priority and output to the log file.
pub fn run(mut command: Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    if let Some(path) = BACKGROUND_LOG.with_borrow(Clone::clone) {
        command = nice(&command);
        let log = File::options().append(true).create(true).open(&path);
        let log = log.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let copy = log.try_clone().map_err(|error| error.to_string())?;
        command.stdout(log).stderr(copy);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} exited with {status}")),
        Err(error) => Err(format!("cannot start {program}: {error}")),
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

/// Steps that run concurrently with the others.
pub struct Background {
    log: PathBuf,
    thread: JoinHandle<Outcome>,
}

impl Background {
    /// Starts the steps of `work`.
    pub fn start(name: &str, work: fn() -> Outcome) -> Result<Self, String> {
        let folder = target().join("logs");
        let log = folder.join(format!("{}.log", name.replace(' ', "-")));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&log, ""))
            .map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let path = log.clone();
        let thread = std::thread::spawn(move || {
            BACKGROUND_LOG.set(Some(path));
            work()
        });
        Ok(Self { log, thread })
    }

    /// Waits for the steps. Prints the end of the log on failure.
    pub fn join(self) -> Outcome {
        let outcome = self.thread.join().unwrap_or_else(|_| Err("a background step panicked".to_owned()));
        if outcome.is_err() {
            let mut text = String::new();
            // If the log cannot be read, only the failure is reported.
            drop(File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text)));
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            print_error(&format!("end of {}:\n{}", self.log.display(), last.join("\n")));
        }
        outcome
    }
}

/// The durations of all steps so far, and the total.
pub fn table(begun: Instant) -> String {
    let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = format!("\n{:<44}{:>14}\n", "step", "time");
    for TimedStep { name, in_background, duration } in steps.iter() {
        let note = if *in_background { "  in background" } else { "" };
        text += &format!("{name:<44}{:>14}{note}\n", format_duration(*duration));
    }
    text + &format!("{:<44}{:>14}\n", "total", format_duration(begun.elapsed()))
}

pub fn format_duration(time: Duration) -> String {
    let secs = time.as_secs();
    if secs < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", secs / 60, secs % 60)
    }
}
