//! Saves the work of the agent after its turns, and before the worker reports or exits.

use super::Supervisor;
use crate::event::Event;
use crate::outbox::Outbox;
use crate::tasks::joined;
use crate::workspace::save::{Error, Occasion, Saver};
use contract::payloads::WorkspacePushFailed;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// What is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Commits of the agent.
    Commits,
    /// Also what the agent has not committed.
    Everything(Occasion),
}

impl Supervisor {
    /// Saves in a separate task. A failure is logged: everything is saved again at the end.
    pub(super) fn save_in_background(&mut self, work: Work) {
        while let Some(ended) = self.saving.try_join_next() {
            joined(ended);
        }
        let saver = self.saver.clone();
        self.saving.spawn(async move {
            if let Err(error) = save(&saver, work).await {
                tracing::warn!("The work of the turn cannot be saved yet: {error}");
            }
        });
    }

    /// Saves everything and pushes it, as far as the time suffices. The agent has exited.
    pub(super) async fn save_before_exit(&mut self, limit: Duration) {
        let (saver, outbox) = (self.saver.clone(), self.outbox.clone());
        let saved = timeout(limit, save_and_deliver(&saver, Occasion::Interrupted, &outbox, limit)).await;
        if saved.is_err() {
            tracing::warn!("The work was not pushed in time; the next run in this directory pushes it");
        }
    }
}

/// Saves everything, and waits until it has reached the host, at most this long. A failure becomes an event.
pub(super) async fn save_and_deliver(saver: &Saver, occasion: Occasion, outbox: &Outbox, limit: Duration) {
    let deadline = Instant::now() + limit;
    // Filters that the agent has configured may take any time.
    let saved = timeout_at(deadline, saver.save(occasion)).await;
    let error = match saved {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("git did not end within {} s", limit.as_secs())),
    };
    if let Some(error) = error {
        tracing::warn!("The work cannot be saved: {error}");
        let branch = saver.origin().map(|origin| origin.relay.branch().to_owned()).unwrap_or_default();
        let commit = saver.head().await.unwrap_or_default();
        outbox.emit(Event::worker(WorkspacePushFailed { branch, commit, error, will_retry: false }));
    }
    if let Some(origin) = saver.origin() {
        origin.relay.delivered(deadline.saturating_duration_since(Instant::now())).await;
    }
}

async fn save(saver: &Saver, work: Work) -> Result<(), Error> {
    match work {
        Work::Commits => saver.push_commits().await,
        Work::Everything(occasion) => saver.save(occasion).await,
    }
}
