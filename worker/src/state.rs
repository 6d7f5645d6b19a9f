//! State that a worker restores after it was killed: a small file next to the outbox, replaced atomically.

use crate::agents::TurnEnd;
use crate::completion::{Outcome, Progress};
use crate::proc;
use domain::MessageId;
use domain::message::MessageType;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How long to wait for a killed process to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub session: Option<String>,
    pub progress: Progress,
    /// Prompt of the current iteration.
    pub prompt: Option<String>,
    pub step: Step,
    /// The resumed session already contains the prompt under another message id, so it is not sent again.
    pub adopted: bool,
    /// Ended turns that are not evaluated yet.
    pub ended_turns: Vec<TurnEnd>,
    /// How often an idle agent was asked to continue.
    pub nudges: u64,
    pub outcome: Option<Outcome>,
    /// Messages handed to the agent that have no final receipt.
    pub pending: Vec<Pending>,
    /// Number of messages handed to the agent.
    pub injected: u64,
    /// Number of transcript lines that were written in another sandbox.
    pub inherited: u64,
    /// Consecutive crashes of the agent.
    pub crashes: u64,
    /// The agent's process, so that a restarted worker can kill it before it starts another.
    pub process: Option<ProcessIdentity>,
}

/// Step of the current iteration. Persisted, so that a restarted worker neither takes an interrupted turn for a
/// completed one nor evaluates a turn twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The agent works on the prompt, or is about to.
    #[default]
    Working,
    /// The turn succeeded and the requirements are being checked.
    Validating,
    /// The task has ended. The repository is inspected for the final event.
    Finishing(Outcome),
    /// Delay before the next iteration, which has this prompt.
    Pausing(String),
    /// Interrupted. The next message continues it.
    Stopped,
}

/// A message that was handed to the agent, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The sender's id.
    pub message_id: MessageId,
    pub message_type: MessageType,
    /// Id in the agent's transcript.
    pub uuid: Uuid,
    pub text: String,
    /// Whether the agent confirmed it.
    pub delivered: bool,
}

/// Identifies a process across pid reuse: a reused pid has another start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id, which is also its process group id.
    pub id: u32,
    /// Start time in clock ticks since boot.
    pub started: u64,
}

impl ProcessIdentity {
    /// `None` if there is no such process.
    pub fn of(id: u32) -> Option<Self> {
        proc::process(id).map(|process| Self { id, started: process.start })
    }

    /// Kills the process group if it still is the same process, and waits until it has stopped. Returns whether it did.
    pub async fn kill_if_alive(self) -> bool {
        if Self::of(self.id) != Some(self) {
            return false;
        }
        let group = i32::try_from(self.id).ok().and_then(rustix::process::Pid::from_raw);
        let signal = rustix::process::Signal::KILL;
        if group.is_none_or(|group| rustix::process::kill_process_group(group, signal).is_err()) {
            return false;
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.is_running() && Instant::now() < deadline {
            sleep(KILL_TIMEOUT / 100).await;
        }
        true
    }

    /// A zombie keeps its pid but does not run.
    fn is_running(self) -> bool {
        proc::process(self.id).is_some_and(|process| !process.is_zombie && process.start == self.started)
    }
}

/// The file that holds [`State`].
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub fn in_dir(dir: &Path) -> Self {
        Self { path: dir.join("state.json") }
    }

    /// Loads the state, or the default if there is no file.
    ///
    /// # Errors
    /// If the file exists and cannot be read. Starting from scratch would repeat all work.
    pub fn load(&self) -> io::Result<State> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(State::default()),
            Err(why) => Err(why),
        }
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, state: &State) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        fs::write(&temporary, serde_json::to_vec(state).map_err(io::Error::other)?)?;
        fs::rename(&temporary, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_state_is_loaded_and_corrupt_state_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::in_dir(dir.path());
        assert_eq!(file.load().unwrap(), State::default());
        let state = State { session: Some("s".into()), injected: 3, ..State::default() };
        file.save(&state).unwrap();
        assert_eq!(file.load().unwrap(), state);
        fs::write(dir.path().join("state.json"), "{").unwrap();
        assert!(file.load().is_err(), "starting from scratch would repeat all work");
    }

    #[tokio::test]
    async fn reused_pid_is_another_process() {
        let process = ProcessIdentity::of(std::process::id()).unwrap();
        assert_eq!(ProcessIdentity::of(std::process::id()), Some(process));
        let other = ProcessIdentity { started: process.started + 1, ..process };
        assert!(!other.kill_if_alive().await, "a process that reuses the pid is not killed");
    }
}
