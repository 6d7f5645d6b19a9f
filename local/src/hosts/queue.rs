//! The queues of jobs and of work: messages to `edge::jobs::run`.

use crate::aws::Messages;
use edge::Plane;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Like a queue's redrive policy: after so many tries a message is put aside, here with a line in the log. What it was
/// about is found by the next sweep.
const MAX_TRIES: u32 = 3;

/// Runs until the queue ends or it is told to stop; then it does the jobs that it has begun, and no others.
pub async fn run(plane: Arc<Plane>, mut messages: Messages, mut stopped: watch::Receiver<bool>) {
    // Side by side: a job that waits for a provider must not hold up the others. They end with this function.
    let mut working = JoinSet::new();
    let each = stopped.clone();
    loop {
        tokio::select! {
            // An error means that the sender is gone, which is also the end.
            _ = stopped.wait_for(|stop| *stop) => break,
            message = messages.recv() => match message {
                Some(message) => {
                    working.spawn(work(plane.clone(), message, each.clone()));
                }
                None => break,
            },
            Some(_) = working.join_next() => {}
        }
    }
    while working.join_next().await.is_some() {}
}

async fn work(plane: Arc<Plane>, message: String, mut stopped: watch::Receiver<bool>) {
    for tries in 1..=MAX_TRIES {
        match edge::jobs::run(&plane, &message).await {
            Ok(()) => return,
            Err(error) => {
                let why = app::error::chain(&error);
                tracing::warn!("Could not do the job {message} (try {tries} of {MAX_TRIES}): {why}");
            }
        }
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(Duration::from_millis(200 << tries)) => {}
        }
    }
    tracing::error!("Gave up the job {message}");
}
