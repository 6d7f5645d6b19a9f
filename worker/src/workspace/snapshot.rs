//! Changes that no tool result tells of: whatever commands do to files is found by looking at the workspace after each
//! tool.
//!
//! The agent's repository, if there is one, is not touched: `shadow` has its own. A tree that is too large to be looked
//! at in time is not looked at any more, and that is told. Deliberately absent: secrets are not hidden here but on the
//! way up, as everywhere else.

use super::diff::{FileChange, Fingerprint, Told};
use super::patch::{self, Found};
use super::shadow::{Blind, LONGEST, Seen, Shadow};
use crate::event::Event;
use std::path::Path;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

/// How long a look may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// So many looks in a row may fail before there are no more.
const MOST_FAILURES: u32 = 3;
/// Tools that tell of their changes change a few files. One that changes more does not tell.
const MOST_FINGERPRINTS: usize = 50;

/// Looks at a workspace, one after the other.
#[derive(Debug)]
pub struct Snapshots {
    state: State,
    deadline: Duration,
    failures: u32,
}

/// What a look found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What changed since the last look.
    pub changes: Vec<FileChange>,
    /// How many further changes are not told.
    pub left_out: usize,
    /// Why there will be no more looks. Said once.
    pub off: Option<String>,
}

/// What the first look leaves.
type First = Result<(Shadow, Seen), Blind>;

#[derive(Debug)]
enum State {
    /// The first look is on its way.
    First(JoinSet<First>),
    On(Box<(Shadow, Seen)>),
    Off,
}

impl Snapshots {
    /// Begins with a first look, in the background. What happened since the last look of a worker before this one is
    /// told by the first [`take`](Self::take).
    pub fn begin(root: &Path, state: &Path) -> Self {
        Self::begin_with(root, state, DEADLINE)
    }

    /// With another deadline.
    pub fn begin_with(root: &Path, state: &Path, deadline: Duration) -> Self {
        let (root, state) = (root.to_owned(), state.to_owned());
        let mut first = JoinSet::new();
        first.spawn(async move {
            let shadow = Shadow::open(&root, &state).await?;
            let seen = match shadow.last().await {
                Some(seen) => seen,
                None => {
                    let seen = shadow.look().await?;
                    shadow.keep(&seen).await?;
                    seen
                }
            };
            Ok((shadow, seen))
        });
        Self { state: State::First(first), deadline, failures: 0 }
    }

    /// Waits until the first look is over. Without that, [`take`](Self::take) finds nothing until it is.
    pub async fn ready(&mut self) -> Taken {
        let State::First(first) = &mut self.state else { return Taken::default() };
        let joined = tokio::time::timeout(LONGEST, first.join_next()).await;
        match joined {
            Ok(joined) => self.begun(joined),
            Err(_) => self.switch_off(format!("the first look took more than {LONGEST:?}")),
        }
    }

    /// What changed since the last look, but for what was told already and is still so.
    pub async fn take(&mut self, already: &[Told]) -> Taken {
        if let State::First(first) = &mut self.state
            && let Some(joined) = first.try_join_next()
        {
            let begun = self.begun(Some(joined));
            if begun.off.is_some() {
                return begun;
            }
        }
        let State::On(on) = &mut self.state else { return Taken::default() };
        match tokio::time::timeout(self.deadline, look(on, already)).await {
            Ok(Ok(taken)) => {
                self.failures = 0;
                taken
            }
            Ok(Err(error)) => {
                self.failures += 1;
                tracing::warn!(%error, "Could not look at the workspace: {error}");
                let tired = self.failures >= MOST_FAILURES;
                if tired { self.switch_off(error.to_string()) } else { Taken::default() }
            }
            Err(_) => self.switch_off(format!("a look at the workspace took more than {:?}", self.deadline)),
        }
    }

    fn begun(&mut self, joined: Option<Result<First, JoinError>>) -> Taken {
        let reason = match joined {
            Some(Ok(Ok(on))) => {
                self.state = State::On(Box::new(on));
                return Taken::default();
            }
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "the first look was given up".to_owned(),
        };
        self.switch_off(reason)
    }

    fn switch_off(&mut self, reason: String) -> Taken {
        self.state = State::Off;
        Taken { off: Some(reason), ..Taken::default() }
    }
}

impl Taken {
    /// As the plane is told.
    pub fn into_events(self, turn: u64, tool_use_id: Option<&str>) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.changes.into_iter().map(|change| change.into_event(turn, tool_use_id)).collect();
        if self.left_out > 0 {
            let left_out = Event::worker("workspace.changes_left_out");
            events.push(
                left_out.with("turn", turn).with("tool_use_id", tool_use_id).with("count", self.left_out),
            );
        }
        events.extend(self.off.map(|reason| Event::worker("workspace.snapshots_off").with("reason", reason)));
        events
    }
}

async fn look((shadow, last): &mut (Shadow, Seen), already: &[Told]) -> Result<Taken, Blind> {
    let seen = shadow.look().await?;
    if seen == *last {
        return Ok(Taken::default());
    }
    let (found, left_out) = patch::between(shadow, last, &seen).await?;
    let mut changes = Vec::new();
    for (number, found) in found.into_iter().enumerate() {
        let fingerprint = if number < MOST_FINGERPRINTS { fingerprint(shadow, &found).await? } else { None };
        let change = FileChange { fingerprint, ..found.change };
        let last = already.iter().rev().find(|told| told.path == change.path);
        if last.is_none() || last != change.told().as_ref() {
            changes.push(change);
        }
    }
    shadow.keep(&seen).await?;
    *last = seen;
    Ok(Taken { changes, left_out, off: None })
}

/// Of what a file holds now, so that a change can be known again that a tool tells of by itself.
async fn fingerprint(shadow: &Shadow, found: &Found) -> Result<Option<Fingerprint>, Blind> {
    let Some(blob) = &found.blob else { return Ok(None) };
    let content = shadow.git.bytes(&["cat-file", "blob", blob], Vec::new(), LONGEST).await?;
    Ok(Some(Fingerprint::of(&content)))
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
