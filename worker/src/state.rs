//! What a worker must know again after it was killed: a small file beside the outbox, replaced as a whole.

use crate::agents::TurnEnd;
use crate::completion::{Outcome, Progress};
use domain::MessageId;
use domain::message::MessageType;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How long a process that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(1);

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The agent's session.
    pub session: Option<String>,
    /// How far the task is.
    pub progress: Progress,
    /// The prompt of the iteration that runs.
    pub prompt: Option<String>,
    /// How far that iteration is.
    pub step: Step,
    /// The agent works on that prompt although it was said to it elsewhere, under another name.
    pub adopted: bool,
    /// Turns that ended and were not judged yet.
    pub ends: Vec<TurnEnd>,
    /// How often an agent that stood still was told to go on.
    pub nudges: u64,
    /// How the task ended, if it has.
    pub outcome: Option<Outcome>,
    /// Messages that were given to the agent, and that it is not done with.
    pub pending: Vec<Pending>,
    /// How many messages were given to it.
    pub injected: u64,
    /// How many lines of the session's record came from another sandbox.
    pub inherited: u64,
    /// How often the agent died.
    pub crashes: u64,
    /// The agent's process. One that is left over from an earlier life must not work on beside the next.
    pub process: Option<ProcessMark>,
}

/// How far an iteration is. It is kept, so that a worker that was killed does not take a turn that somebody stopped for
/// one that ended well, or judges one twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The agent works, or is about to.
    #[default]
    Working,
    /// The turn ended well; whether what is required holds is being looked at.
    Validating,
    /// It is over; the repository is looked at a last time.
    Finishing(Outcome),
    /// The next iteration begins soon, with this prompt.
    Pausing(String),
    /// Somebody stopped it. It goes on when they say so.
    Stopped,
}

/// A message that the agent has, or should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// As its sender calls it.
    pub message_id: MessageId,
    /// What it is meant to do.
    pub message_type: MessageType,
    /// As the agent calls it.
    pub uuid: Uuid,
    /// What the agent reads.
    pub text: String,
    /// Whether the agent has said that it has it.
    pub delivered: bool,
}

/// A process, so that it can be known again: numbers are given out anew, but not with the same time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number, which is also that of its group.
    pub id: u32,
    /// When it was started, in ticks since the machine was.
    pub started: u64,
}

impl ProcessMark {
    /// Of a process that runs.
    pub fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some(Self { id, started: start_ticks(&stat)? })
    }

    /// Kills the process and its group, if it is still the same one, and waits a moment until it writes no more.
    pub async fn kill_if_alive(self) -> bool {
        if Self::of(self.id) != Some(self) {
            return false;
        }
        let group = i32::try_from(self.id).ok().and_then(rustix::process::Pid::from_raw);
        let signal = rustix::process::Signal::KILL;
        if group.is_none_or(|group| rustix::process::kill_process_group(group, signal).is_err()) {
            return false;
        }
        let deadline = Instant::now() + DYING;
        while self.runs() && Instant::now() < deadline {
            sleep(DYING / 100).await;
        }
        true
    }

    /// Whether it can still do something. One that nobody has asked about since it died keeps its number.
    fn runs(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        let state = stat.rfind(')').and_then(|end| stat[end + 1..].split_whitespace().next());
        state.is_some_and(|state| state != "Z") && start_ticks(&stat) == Some(self.started)
    }
}

/// The 22nd field. The second is the name in brackets, which may hold anything.
fn start_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// Where the state is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    /// In this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join("state.json") }
    }

    /// What was kept; the beginning of everything if nothing was.
    ///
    /// # Errors
    /// When it is there and cannot be read: to begin afresh would do everything twice.
    pub fn load(&self) -> io::Result<State> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(State::default()),
            Err(why) => Err(why),
        }
    }

    /// Keeps it.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn save(&self, state: &State) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(state).map_err(io::Error::other)?)?;
        fs::rename(&beside, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_nothing_is_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::in_folder(folder.path());
        assert_eq!(kept.load().unwrap(), State::default());
        let state = State { session: Some("s".into()), injected: 3, ..State::default() };
        kept.save(&state).unwrap();
        assert_eq!(kept.load().unwrap(), state);
        fs::write(folder.path().join("state.json"), "{").unwrap();
        assert!(kept.load().is_err(), "to begin afresh would do everything twice");
    }

    #[tokio::test]
    async fn a_process_is_known_by_its_number_and_its_birth() {
        let mark = ProcessMark::of(std::process::id()).unwrap();
        assert_eq!(ProcessMark::of(std::process::id()), Some(mark));
        let other = ProcessMark { started: mark.started + 1, ..mark };
        assert!(!other.kill_if_alive().await, "another process that has the number now is left alone");
        assert_eq!(start_ticks("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20"), Some(777));
    }
}
