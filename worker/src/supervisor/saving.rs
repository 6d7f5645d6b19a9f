//! Saves the work of the agent after its turns, and before the worker reports or exits.

use super::Supervisor;
use crate::event::Event;
use crate::keeping::Keeping;
use crate::outbox::Outbox;
use crate::tasks::joined;
use crate::workspace::save::{Error, Occasion, Saver};
use contract::payloads::WorkspacePushFailed;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The part of the time before the exit in which the code host may respond.
const SHARE_OF_THE_HOST: f64 = 0.5;

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
        let (saver, keeping, limit) = (self.saver.clone(), self.keeping.clone(), self.config.push_timeout);
        self.saving.spawn(async move {
            let saved = save(&saver, work).await;
            if let Err(error) = &saved {
                tracing::warn!("The work of the turn cannot be saved yet: {error}");
            }
            // Without a code host, a worker that is killed would take the work with it.
            if saver.origin().is_none() || matches!(work, Work::Everything(_)) {
                keeping.keep(saved.is_ok(), limit).await;
            }
        });
    }

    /// Saves everything, and pushes or uploads it, as far as the time suffices. The agent has exited.
    pub(super) async fn save_before_exit(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let (saver, outbox) = (self.saver.clone(), self.outbox.clone());
        // A host that does not respond leaves time for the upload.
        let for_host = limit.mul_f64(SHARE_OF_THE_HOST);
        let saved =
            timeout(for_host, save_and_deliver(&saver, Occasion::Interrupted, &outbox, for_host)).await;
        if saved.is_err() {
            tracing::warn!("The work was not pushed in time; the next run in this directory pushes it");
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        self.keeping.keep(saved.unwrap_or(false), remaining).await;
    }
}

/// As [`save_and_deliver`], and keeps what the host did not get.
pub(super) async fn save_and_keep(
    (saver, keeping): (&Saver, &Keeping),
    occasion: Occasion,
    outbox: &Outbox,
    limit: Duration,
) {
    let is_saved = save_and_deliver(saver, occasion, outbox, limit).await;
    keeping.keep(is_saved, limit).await;
}

/// Saves everything, and waits until it has reached the host, at most this long. A failure becomes an event. Returns whether
/// everything is saved.
async fn save_and_deliver(saver: &Saver, occasion: Occasion, outbox: &Outbox, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    // Filters that the agent has configured may take any time.
    let saved = timeout_at(deadline, saver.save(occasion)).await;
    let error = match saved {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("git did not end within {} s", limit.as_secs())),
    };
    let is_saved = error.is_none();
    if let Some(error) = error {
        tracing::warn!("The work cannot be saved: {error}");
        let branch = saver.origin().map(|origin| origin.relay.branch().to_owned()).unwrap_or_default();
        let commit = saver.head().await.unwrap_or_default();
        outbox.emit(Event::worker(WorkspacePushFailed { branch, commit, error, will_retry: false }));
    }
    if let Some(origin) = saver.origin() {
        origin.relay.delivered(deadline.saturating_duration_since(Instant::now())).await;
    }
    is_saved
}

async fn save(saver: &Saver, work: Work) -> Result<(), Error> {
    match work {
        Work::Commits => saver.push_commits().await,
        Work::Everything(occasion) => saver.save(occasion).await,
    }
}
