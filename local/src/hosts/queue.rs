//! The queue of jobs: messages to `edge::jobs::run`.

use crate::aws::Messages;
use edge::Plane;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Like a queue's redrive policy: after so many tries a message is put aside, here with a line in the log.
const MAX_TRIES: u32 = 3;

/// Runs until the queue ends.
pub async fn run(plane: Arc<Plane>, mut messages: Messages) {
    // Side by side: a job that waits must not hold up the others. They end with this function.
    let mut working = JoinSet::new();
    while let Some(message) = messages.recv().await {
        working.spawn(work(plane.clone(), message));
        while working.try_join_next().is_some() {}
    }
}

async fn work(plane: Arc<Plane>, message: String) {
    for tries in 1..=MAX_TRIES {
        match edge::jobs::run(&plane, &message).await {
            Ok(()) => return,
            Err(error) => {
                let why = app::error::chain(&error);
                tracing::warn!("Could not do the job {message} (try {tries} of {MAX_TRIES}): {why}");
            }
        }
        tokio::time::sleep(Duration::from_millis(200 << tries)).await;
    }
    tracing::error!("Gave up the job {message}");
}
