//! Background tasks that observe effects of the agent: changed files, open ports and memory. They emit events to the
//! outbox themselves, so that scanning a large repository never blocks the agent.

use crate::agents::memory;
use crate::event::Event;
use crate::heartbeat::AgentState;
use crate::outbox::Outbox;
use crate::preview::{self, Loopback};
use crate::tasks::{TaskFailure, Tasks, joined};
use crate::workspace::diff::EmittedChange;
use crate::workspace::snapshot::{Changes, Snapshots};
use contract::payloads::{AgentToolUse, Payload as _};
use serde_json::Value;
use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum time to wait for queued file scans.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(12);

/// How long a detected change is held back, because the result of a tool that has just ended may report it too.
const HOLD_BACK: Duration = Duration::from_millis(300);

/// How long a detected change is held back while other tools run, because it may be theirs. Some run for hours.
const MAX_HOLD_BACK: Duration = Duration::from_secs(10);

const MEMORY_INTERVAL: Duration = Duration::from_secs(5);

/// How often observers are started again after they have failed, all together.
const MAX_RESTARTS: u32 = 3;

const FILES: &str = "watching files";
const MEMORY: &str = "watching the agent's memory";
const PORTS: &str = "watching ports";

pub(super) struct Observers {
    outbox: Outbox,
    agent_state: watch::Sender<AgentState>,
    /// Where files are scanned, and where scans are stored.
    directories: (PathBuf, PathBuf),
    /// Starts git.
    launcher: confine::Launcher,
    /// How to reach ports of the agent. `None` if they are not watched.
    previews: Option<Loopback>,
    scans: mpsc::UnboundedSender<ScanRequest>,
    process: watch::Sender<Option<u32>>,
    tasks: Tasks,
    restarts: u32,
}

enum ScanRequest {
    ToolStarted {
        tool_use_id: String,
    },
    ToolEnded {
        tool_use_id: String,
        turn: u64,
        edited: Vec<EmittedChange>,
    },
    /// No tool of the turn runs any more, even if its end was not reported.
    TurnEnded,
    /// Notify when all earlier requests are processed.
    Drain(oneshot::Sender<()>),
}

impl Observers {
    pub(super) fn start(
        outbox: &Outbox,
        directories: (PathBuf, PathBuf),
        launcher: confine::Launcher,
        previews: Option<Loopback>,
        agent_state: watch::Sender<AgentState>,
    ) -> Self {
        let mut observers = Self {
            outbox: outbox.clone(),
            agent_state,
            directories,
            launcher,
            previews,
            scans: mpsc::unbounded_channel().0,
            process: watch::channel(None).0,
            tasks: Tasks::default(),
            restarts: 0,
        };
        observers.start_observer(FILES);
        observers.start_observer(MEMORY);
        if observers.previews.is_some() {
            observers.start_observer(PORTS);
        }
        observers
    }

    fn start_observer(&mut self, name: &'static str) {
        let (outbox, processes) = (self.outbox.clone(), self.process.subscribe());
        match name {
            FILES => {
                let (scans, requests) = mpsc::unbounded_channel();
                self.scans = scans;
                let snapshots = Snapshots::start(&self.directories.0, &self.directories.1, &self.launcher);
                self.tasks.spawn(name, watch_files(snapshots, requests, outbox));
            }
            MEMORY => self.tasks.spawn(name, watch_memory(processes, self.agent_state.clone())),
            _ => {
                let loopback = self.previews.clone().unwrap_or_default();
                self.tasks.spawn(name, watch_ports(processes, loopback, outbox));
            }
        }
    }

    /// The next observer that panics. Never resolves if none does.
    pub(super) async fn failed(&mut self) -> TaskFailure {
        self.tasks.failed().await
    }

    /// Starts an observer again that has failed. Without it the agent still works, so after too many failures it stays
    /// off. Returns whether it was started.
    pub(super) fn restart(&mut self, failure: &TaskFailure) -> bool {
        let restarts = self.restarts < MAX_RESTARTS;
        if restarts {
            self.restarts += 1;
            self.start_observer(failure.name);
        }
        restarts
    }

    /// Sets the agent's process.
    pub(super) fn watch(&self, process: Option<u32>) {
        self.process.send_replace(process);
    }

    /// Notices which tools run.
    pub(super) fn agent_emitted(&self, event: &Event) {
        if event.event_type == AgentToolUse::EVENT_TYPE
            && let Some(tool_use_id) = event.data.get("tool_use_id").and_then(Value::as_str)
        {
            let _ = self.scans.send(ScanRequest::ToolStarted { tool_use_id: tool_use_id.to_owned() });
        }
    }

    /// A tool has ended. Its result already reported the changes in `edited`.
    pub(super) fn tool_ended(&self, tool_use_id: String, turn: u64, edited: Vec<EmittedChange>) {
        let _ = self.scans.send(ScanRequest::ToolEnded { tool_use_id, turn, edited });
    }

    pub(super) fn turn_ended(&self) {
        let _ = self.scans.send(ScanRequest::TurnEnded);
    }

    /// Resolves when all queued scans are processed, or on timeout.
    pub(super) fn drained(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (done, drained) = oneshot::channel();
        let _ = self.scans.send(ScanRequest::Drain(done));
        async move {
            let _ = timeout(DRAIN_TIMEOUT, drained).await;
        }
    }
}

async fn watch_files(
    mut snapshots: Snapshots,
    mut requests: mpsc::UnboundedReceiver<ScanRequest>,
    outbox: Outbox,
) {
    let first_scan = snapshots.ready().await;
    // Changes made while no worker was running belong to no tool.
    let missed = snapshots.scan(&[]).await;
    for event in first_scan.into_events(0, None).into_iter().chain(missed.into_events(0, None)) {
        outbox.emit(event);
    }
    let mut pending = PendingChanges::default();
    loop {
        let request = match pending.due(Instant::now()) {
            Some(due) => timeout_at(due, requests.recv()).await,
            None => Ok(requests.recv().await),
        };
        match request {
            Err(_) => pending.emit(&outbox),
            Ok(None) => return,
            Ok(Some(ScanRequest::Drain(done))) => {
                pending.emit(&outbox);
                let _ = done.send(());
            }
            Ok(Some(ScanRequest::ToolStarted { tool_use_id })) => pending.tool_started(tool_use_id),
            Ok(Some(ScanRequest::TurnEnded)) => pending.turn_ended(),
            Ok(Some(ScanRequest::ToolEnded { tool_use_id, turn, mut edited })) => {
                // One scan covers all tools that ended meanwhile.
                pending.tool_ended(&tool_use_id);
                let (mut last, mut drain) = ((tool_use_id, turn), None);
                while let Ok(next) = requests.try_recv() {
                    match next {
                        ScanRequest::ToolStarted { tool_use_id } => pending.tool_started(tool_use_id),
                        ScanRequest::TurnEnded => pending.turn_ended(),
                        ScanRequest::ToolEnded { tool_use_id, turn, edited: more } => {
                            pending.tool_ended(&tool_use_id);
                            last = (tool_use_id, turn);
                            edited.extend(more);
                        }
                        ScanRequest::Drain(done) => {
                            drain = Some(done);
                            break;
                        }
                    }
                }
                pending.remove_emitted(&edited);
                let changes = snapshots.scan(&edited).await;
                pending.add(changes, last, Instant::now());
                if let Some(done) = drain {
                    pending.emit(&outbox);
                    let _ = done.send(());
                }
            }
        }
    }
}

/// Detected changes that are held back: the result of a tool that runs, or has just ended, may report them too.
#[derive(Default)]
struct PendingChanges {
    changes: Vec<(Changes, (String, u64))>,
    /// When the first of them was detected.
    since: Option<Instant>,
    /// Tools that have started and not ended.
    running: HashSet<String>,
}

impl PendingChanges {
    fn tool_started(&mut self, tool_use_id: String) {
        self.running.insert(tool_use_id);
    }

    fn tool_ended(&mut self, tool_use_id: &str) {
        self.running.remove(tool_use_id);
    }

    fn turn_ended(&mut self) {
        self.running.clear();
    }

    fn add(&mut self, changes: Changes, tool: (String, u64), now: Instant) {
        if changes != Changes::default() {
            self.since.get_or_insert(now);
            self.changes.push((changes, tool));
        }
    }

    /// When the changes are emitted if nothing else happens. `None` without changes.
    fn due(&self, now: Instant) -> Option<Instant> {
        let latest = self.since? + MAX_HOLD_BACK;
        Some(if self.running.is_empty() { latest.min(now + HOLD_BACK) } else { latest })
    }

    fn remove_emitted(&mut self, emitted: &[EmittedChange]) {
        for (changes, _) in &mut self.changes {
            changes.files.retain(|file| !emitted.iter().any(|emitted| emitted.includes(file)));
        }
    }

    fn emit(&mut self, outbox: &Outbox) {
        self.since = None;
        for (changes, (tool_use_id, turn)) in self.changes.drain(..) {
            for event in changes.into_events(turn, Some(&tool_use_id)) {
                outbox.emit(event);
            }
        }
    }
}

/// Measures the agent's memory for the heartbeats.
async fn watch_memory(mut processes: watch::Receiver<Option<u32>>, agent_state: watch::Sender<AgentState>) {
    loop {
        let process = *processes.borrow_and_update();
        let used = match process {
            Some(process) => joined(spawn_blocking(move || memory::used_bytes(process)).await).flatten(),
            None => None,
        };
        agent_state.send_modify(|state| state.agent_memory_bytes = used);
        if let Ok(Err(_)) = timeout(MEMORY_INTERVAL, processes.changed()).await {
            return;
        }
    }
}

async fn watch_ports(mut processes: watch::Receiver<Option<u32>>, loopback: Loopback, outbox: Outbox) {
    loop {
        let process = *processes.borrow_and_update();
        let changed = processes.changed();
        let ended = match process {
            Some(process) => {
                let (sender, mut events) = mpsc::channel(16);
                let watching = preview::run(process, loopback.clone(), sender);
                tokio::pin!(changed, watching);
                let mut is_watching = true;
                loop {
                    tokio::select! {
                        changed = &mut changed => break changed.is_err(),
                        Some(event) = events.recv() => outbox.emit(event),
                        () = &mut watching, if is_watching => is_watching = false,
                    }
                }
            }
            None => changed.await.is_err(),
        };
        if ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_plane::FakePlane;
    use crate::workspace::diff::FileChange;
    use std::path::Path;

    #[test]
    fn detected_change_is_held_back_while_another_tool_runs() {
        let content = "a\n";
        let change = FileChange::from_texts("a.txt", None, Some(content)).unwrap();
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        assert_eq!(pending.due(now), None, "nothing to emit");
        pending.tool_started("slow".to_owned());
        let emitted = change.emitted().unwrap();
        let changes = Changes { files: vec![change], ..Changes::default() };
        pending.add(changes, ("quick".to_owned(), 1), now);
        let later = now + MAX_HOLD_BACK / 2;
        assert_eq!(pending.due(later), Some(now + MAX_HOLD_BACK), "it may be a change of the slow tool");
        pending.tool_ended("slow");
        assert_eq!(pending.due(later), Some(later + HOLD_BACK), "no tool runs");
        pending.remove_emitted(&[emitted]);
        assert!(
            pending.changes.iter().all(|(changes, _)| changes.files.is_empty()),
            "the slow tool reported it"
        );
    }

    #[test]
    fn creation_detected_while_its_tool_writes_is_part_of_the_reported_one() {
        let created = |content| FileChange::from_texts("a.txt", None, Some(content)).unwrap();
        let modified = FileChange::from_texts("a.txt", Some("before\n"), Some("half")).unwrap();
        let files = vec![created("half"), modified.clone()];
        let mut pending = PendingChanges::default();
        let tool = ("quick".to_owned(), 1);
        pending.add(Changes { files, ..Changes::default() }, tool, Instant::now());
        pending.remove_emitted(&[created("half and half\n").emitted().unwrap()]);
        assert_eq!(pending.changes[0].0.files, [modified], "an earlier change of an existing file is kept");
    }

    #[tokio::test]
    async fn failed_observer_is_started_again() {
        let (plane, dir) = (FakePlane::start(1).await, tempfile::tempdir().unwrap());
        let mut observers = start(&plane, dir.path());
        // Ends the first observers, so that only a new one can respond.
        observers.tasks = Tasks::default();
        let failure = fail(&mut observers, FILES).await;
        assert_eq!(failure.name, FILES);
        assert!(observers.restart(&failure));
        let (done, drained) = oneshot::channel();
        assert!(observers.scans.send(ScanRequest::Drain(done)).is_ok());
        // `Observers::drained` would also resolve without an observer.
        timeout(Duration::from_secs(30), drained).await.unwrap().expect("the new observer responds");
    }

    #[tokio::test]
    async fn number_of_restarts_is_limited_for_all_observers_together() {
        let (plane, dir) = (FakePlane::start(1).await, tempfile::tempdir().unwrap());
        let mut observers = start(&plane, dir.path());
        for (attempt, name) in (0..=MAX_RESTARTS).zip([FILES, MEMORY, PORTS].into_iter().cycle()) {
            let failure = fail(&mut observers, name).await;
            assert_eq!(observers.restart(&failure), attempt < MAX_RESTARTS, "{attempt} {name}");
        }
    }

    fn start(plane: &FakePlane, dir: &Path) -> Observers {
        let outbox = crate::outbox::tests::open(plane, &dir.join("outbox"));
        let directories = (dir.join("workspace"), dir.join("state"));
        std::fs::create_dir(&directories.0).unwrap();
        Observers::start(
            &outbox,
            directories,
            crate::confinement::unconfined(),
            Some(Loopback::Machine),
            watch::channel(AgentState::default()).0,
        )
    }

    /// Adds an observer that panics, and waits until this is noticed.
    async fn fail(observers: &mut Observers, name: &'static str) -> TaskFailure {
        observers.tasks.spawn(name, async { panic!("a bug") });
        timeout(Duration::from_secs(30), observers.failed()).await.unwrap()
    }
}
