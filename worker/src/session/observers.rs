//! Those who watch what an agent does besides telling it: files that change, ports that open. They run beside the
//! session and tell the outbox by themselves, so that a large repository never holds up an agent.

use crate::agents::memory;
use crate::heartbeat::Vitals;
use crate::outbox::Outbox;
use crate::preview;
use crate::workspace::diff::Told;
use crate::workspace::snapshot::{Snapshots, Taken};
use std::future::Future;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long whoever waits for the files to be looked at waits at most.
const PATIENCE: Duration = Duration::from_secs(12);

/// How long a change that was found waits for a tool to tell of it by itself.
const PAUSE: Duration = Duration::from_millis(300);

/// How often the agent's memory is looked at.
const MEMORY_EVERY: Duration = Duration::from_secs(5);

/// The watchers.
pub(super) struct Observers {
    files: mpsc::UnboundedSender<Look>,
    process: watch::Sender<Option<u32>>,
}

enum Look {
    /// A tool has ended.
    Tool { tool_use_id: String, turn: u64, edited: Vec<Told> },
    /// Say so when everything before is looked at.
    Settle(oneshot::Sender<()>),
}

impl Observers {
    /// Starts watching.
    pub(super) fn start(
        outbox: &Outbox,
        snapshots: Snapshots,
        previews: bool,
        vitals: watch::Sender<Vitals>,
    ) -> Self {
        let (files, looks) = mpsc::unbounded_channel();
        tokio::spawn(watch_files(snapshots, looks, outbox.clone()));
        let (process, processes) = watch::channel(None);
        tokio::spawn(watch_memory(processes.clone(), vitals));
        if previews {
            tokio::spawn(watch_ports(processes, outbox.clone()));
        }
        Self { files, process }
    }

    /// The agent is another process now.
    pub(super) fn watch(&self, process: Option<u32>) {
        self.process.send_replace(process);
    }

    /// A tool has ended, and told of the change of these files by itself.
    pub(super) fn tool_ended(&self, tool_use_id: String, turn: u64, edited: Vec<Told>) {
        let _ = self.files.send(Look::Tool { tool_use_id, turn, edited });
    }

    /// When everything up to now has been looked at.
    pub(super) fn settled(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (done, settled) = oneshot::channel();
        let _ = self.files.send(Look::Settle(done));
        async move {
            let _ = timeout(PATIENCE, settled).await;
        }
    }
}

async fn watch_files(mut snapshots: Snapshots, mut looks: mpsc::UnboundedReceiver<Look>, outbox: Outbox) {
    let begun = snapshots.ready().await;
    // What changed while no worker was there belongs to no tool.
    let missed = snapshots.take(&[]).await;
    for event in begun.into_events(0, None).into_iter().chain(missed.into_events(0, None)) {
        outbox.tell(event);
    }
    let mut found = Found::default();
    loop {
        let look = match timeout(PAUSE, looks.recv()).await {
            Ok(Some(look)) => look,
            Ok(None) => return,
            Err(_) => {
                found.tell(&outbox);
                match looks.recv().await {
                    Some(look) => look,
                    None => return,
                }
            }
        };
        match look {
            Look::Settle(done) => {
                found.tell(&outbox);
                let _ = done.send(());
            }
            Look::Tool { tool_use_id, turn, mut edited } => {
                // Of tools that ended meanwhile, one look is enough.
                let (mut last, mut settle) = ((tool_use_id, turn), None);
                while let Ok(next) = looks.try_recv() {
                    match next {
                        Look::Tool { tool_use_id, turn, edited: more } => {
                            last = (tool_use_id, turn);
                            edited.extend(more);
                        }
                        Look::Settle(done) => {
                            settle = Some(done);
                            break;
                        }
                    }
                }
                found.were_told(&edited);
                found.add(snapshots.take(&edited).await, last);
                if let Some(done) = settle {
                    found.tell(&outbox);
                    let _ = done.send(());
                }
            }
        }
    }
}

/// What looks found and was not told yet: a tool whose end we have not heard of may tell it by itself in a moment.
#[derive(Default)]
struct Found(Vec<(Taken, (String, u64))>);

impl Found {
    fn add(&mut self, taken: Taken, tool: (String, u64)) {
        self.0.push((taken, tool));
    }

    fn were_told(&mut self, told: &[Told]) {
        for (taken, _) in &mut self.0 {
            taken.changes.retain(|change| !change.told().is_some_and(|change| told.contains(&change)));
        }
    }

    fn tell(&mut self, outbox: &Outbox) {
        for (taken, (tool_use_id, turn)) in self.0.drain(..) {
            for event in taken.into_events(turn, Some(&tool_use_id)) {
                outbox.tell(event);
            }
        }
    }
}

/// How much memory the agent uses is part of every sign of life.
async fn watch_memory(mut processes: watch::Receiver<Option<u32>>, vitals: watch::Sender<Vitals>) {
    loop {
        let process = *processes.borrow_and_update();
        let used = match process {
            Some(process) => spawn_blocking(move || memory::used_bytes(process)).await.ok().flatten(),
            None => None,
        };
        vitals.send_modify(|vitals| vitals.agent_memory_bytes = used);
        if let Ok(Err(_)) = timeout(MEMORY_EVERY, processes.changed()).await {
            return;
        }
    }
}

async fn watch_ports(mut processes: watch::Receiver<Option<u32>>, outbox: Outbox) {
    loop {
        let process = *processes.borrow_and_update();
        let changed = processes.changed();
        let ended = match process {
            Some(process) => {
                let (tell, mut told) = mpsc::channel(16);
                let watching = tokio::spawn(preview::run(process, tell));
                tokio::pin!(changed);
                let ended = loop {
                    tokio::select! {
                        changed = &mut changed => break changed.is_err(),
                        Some(event) = told.recv() => outbox.tell(event),
                    }
                };
                watching.abort();
                ended
            }
            None => changed.await.is_err(),
        };
        if ended {
            return;
        }
    }
}
