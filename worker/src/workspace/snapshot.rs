//! Detects file changes that no tool result reports, such as those of shell commands, by scanning the workspace after
//! each tool.
//!
//! The agent's own repository is not touched; `shadow` uses its own. If scans take too long, they are disabled, and an
//! event says so. Deliberately absent: redaction of secrets, which the outbox does for all events.

use super::diff::{EmittedChange, FileChange, Fingerprint};
use super::patch::{self, DetectedChange};
use super::shadow_repository::{GIT_TIMEOUT, ScanError, ShadowRepository, Snapshot};
use crate::event::Event;
use confine::Launcher;
use contract::payloads::{WorkspaceChangesLeftOut, WorkspaceSnapshotsOff};
use std::path::Path;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

pub const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Scans are disabled after this many consecutive failures.
const MAX_FAILURES: u32 = 3;
/// Maximum number of changes compared with emitted ones. Tools that report their changes change only a few files.
const MAX_FINGERPRINTS: usize = 50;

/// Takes consecutive snapshots of a workspace and compares them.
#[derive(Debug)]
pub struct Snapshots {
    state: State,
    timeout: Duration,
    failures: u32,
}

/// Result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub files: Vec<FileChange>,
    /// Number of further changes that are not included.
    pub omitted: usize,
    /// Why scans were disabled. Set once.
    pub disabled: Option<String>,
}

type FirstScan = Result<(ShadowRepository, Snapshot), ScanError>;

#[derive(Debug)]
enum State {
    /// The first scan is running.
    Starting(JoinSet<FirstScan>),
    Active(Box<(ShadowRepository, Snapshot)>),
    Disabled,
}

impl Snapshots {
    /// Starts the first scan in the background. Changes since the last scan of an earlier worker are reported by the
    /// first [`scan`](Self::scan).
    pub fn start(root: &Path, state: &Path, launcher: &Launcher) -> Self {
        Self::start_with(root, state, launcher, SCAN_TIMEOUT)
    }

    /// With another timeout.
    pub fn start_with(root: &Path, state: &Path, launcher: &Launcher, timeout: Duration) -> Self {
        let (root, state, launcher) = (root.to_owned(), state.to_owned(), launcher.clone());
        let mut first = JoinSet::new();
        first.spawn(async move {
            let shadow = ShadowRepository::open(&root, &state, &launcher).await?;
            let snapshot = match shadow.last().await {
                Some(snapshot) => snapshot,
                None => {
                    let snapshot = shadow.scan().await?;
                    shadow.save(&snapshot).await?;
                    snapshot
                }
            };
            Ok((shadow, snapshot))
        });
        Self { state: State::Starting(first), timeout, failures: 0 }
    }

    /// Waits until the first scan has finished. Before that, [`scan`](Self::scan) reports nothing.
    pub async fn ready(&mut self) -> Changes {
        let State::Starting(first) = &mut self.state else { return Changes::default() };
        let joined = tokio::time::timeout(GIT_TIMEOUT, first.join_next()).await;
        match joined {
            Ok(joined) => self.first_scan_ended(joined),
            Err(_) => self.disable(format!("the first scan took more than {GIT_TIMEOUT:?}")),
        }
    }

    /// Returns the changes since the last scan, except those that were emitted already and are still current.
    pub async fn scan(&mut self, emitted: &[EmittedChange]) -> Changes {
        if let State::Starting(first) = &mut self.state
            && let Some(joined) = first.try_join_next()
        {
            let result = self.first_scan_ended(Some(joined));
            if result.disabled.is_some() {
                return result;
            }
        }
        let State::Active(active) = &mut self.state else { return Changes::default() };
        match tokio::time::timeout(self.timeout, compare(active, emitted)).await {
            Ok(Ok(changes)) => {
                self.failures = 0;
                changes
            }
            Ok(Err(error)) => {
                self.failures += 1;
                tracing::warn!(%error, "Cannot scan the workspace: {error}");
                let give_up = self.failures >= MAX_FAILURES;
                if give_up { self.disable(error.to_string()) } else { Changes::default() }
            }
            Err(_) => self.disable(format!("a scan of the workspace took more than {:?}", self.timeout)),
        }
    }

    fn first_scan_ended(&mut self, joined: Option<Result<FirstScan, JoinError>>) -> Changes {
        let reason = match joined {
            Some(Ok(Ok(active))) => {
                self.state = State::Active(Box::new(active));
                return Changes::default();
            }
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "the first scan was cancelled".to_owned(),
        };
        self.disable(reason)
    }

    fn disable(&mut self, reason: String) -> Changes {
        self.state = State::Disabled;
        Changes { disabled: Some(reason), ..Changes::default() }
    }
}

impl Changes {
    pub fn into_events(self, turn: u64, tool_use_id: Option<&str>) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.files.into_iter().map(|change| change.into_event(turn, tool_use_id)).collect();
        if self.omitted > 0 {
            let (tool_use_id, count) = (tool_use_id.map(str::to_owned), self.omitted as u64);
            events.push(Event::worker(WorkspaceChangesLeftOut { turn, tool_use_id, count }));
        }
        events.extend(self.disabled.map(|reason| Event::worker(WorkspaceSnapshotsOff { reason })));
        events
    }
}

async fn compare(
    (shadow, last): &mut (ShadowRepository, Snapshot),
    emitted: &[EmittedChange],
) -> Result<Changes, ScanError> {
    let snapshot = shadow.scan().await?;
    if snapshot == *last {
        return Ok(Changes::default());
    }
    let (detected, omitted) = patch::between(shadow, last, &snapshot).await?;
    let mut files = Vec::new();
    for (number, detected) in detected.into_iter().enumerate() {
        let fingerprint =
            if number < MAX_FINGERPRINTS { fingerprint(shadow, &detected).await? } else { None };
        let change = FileChange { fingerprint, ..detected.change };
        let last = emitted.iter().rev().find(|emitted| emitted.path == change.path);
        if !last.is_some_and(|last| change.fingerprint.as_ref() == Some(&last.fingerprint)) {
            files.push(change);
        }
    }
    shadow.save(&snapshot).await?;
    *last = snapshot;
    Ok(Changes { files, omitted, disabled: None })
}

/// Fingerprint of the new content, to recognize changes that a tool result reports too.
async fn fingerprint(
    shadow: &ShadowRepository,
    detected: &DetectedChange,
) -> Result<Option<Fingerprint>, ScanError> {
    let Some(blob) = &detected.blob else { return Ok(None) };
    let content = shadow.git.bytes(&["cat-file", "blob", blob], Vec::new(), GIT_TIMEOUT).await?;
    Ok(Some(Fingerprint::of(&content)))
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
