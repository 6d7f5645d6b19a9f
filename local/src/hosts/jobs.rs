//! The job queues: passes messages to `edge::jobs::run`.

use crate::aws::{JobMessage, JobMessages};
use client::{Backoff, Wait};
use edge::Plane;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Like `maxReceiveCount` of a redrive policy, but without a dead-letter queue: the next sweep enqueues the job again.
const MAX_ATTEMPTS: u32 = 3;
/// Delays between attempts.
const RETRIES: Backoff = Backoff::new(Duration::from_millis(400), Duration::from_secs(10));

/// Runs until the queue is closed or a stop is requested, then finishes the jobs in progress.
pub async fn run(plane: Arc<Plane>, mut messages: JobMessages, mut stopped: watch::Receiver<bool>) {
    // Concurrently, because a job may wait for a provider.
    let mut running = JoinSet::new();
    let job_stopped = stopped.clone();
    loop {
        tokio::select! {
            // An error means that the sender was dropped, which also means stop.
            _ = stopped.wait_for(|stop| *stop) => break,
            message = messages.recv() => match message {
                Some(message) => {
                    running.spawn(run_job(plane.clone(), message, job_stopped.clone()));
                }
                None => break,
            },
            Some(_) = running.join_next() => {}
        }
    }
    while running.join_next().await.is_some() {}
}

async fn run_job(plane: Arc<Plane>, message: JobMessage, mut stopped: watch::Receiver<bool>) {
    let JobMessage { id, body } = message;
    for attempt in 1..=MAX_ATTEMPTS {
        match edge::jobs::run(&plane, &id, &body).await {
            Ok(()) => return,
            Err(error) => {
                let why = app::error::chain(&error);
                tracing::warn!(job.id = %id, "Job {body} failed (attempt {attempt} of {MAX_ATTEMPTS}): {why}");
            }
        }
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(RETRIES.wait(attempt - 1)) => {}
        }
    }
    tracing::error!(job.id = %id, "Job {body} failed {MAX_ATTEMPTS} times and is dropped");
}
