//! Enqueueing jobs that other functions run.

use crate::error::{Error, chain};
use contract::jobs::Job;
use futures_util::{StreamExt, stream};
use std::time::Duration;
use store::JobQueue;

/// Enqueues a job without a delay. The state that the job acts on is stored by then, so a failure is only logged: the
/// next sweep enqueues the job again.
pub(crate) async fn enqueue(queue: &JobQueue, job: &Job) {
    enqueue_later(queue, job, Duration::ZERO).await;
}

/// Enqueues a job that no sweep would enqueue again.
pub(crate) async fn send(queue: &JobQueue, job: &Job) -> Result<(), Error> {
    Ok(queue.send(&job.encode(), Duration::ZERO).await?)
}

pub(crate) async fn enqueue_all(queue: &JobQueue, jobs: &[Job]) {
    const CONCURRENCY: usize = 16;
    stream::iter(jobs).for_each_concurrent(CONCURRENCY, |job| enqueue(queue, job)).await;
}

/// Enqueues a job with a delay in whole seconds.
pub(crate) async fn enqueue_later(queue: &JobQueue, job: &Job, delay: Duration) {
    if let Err(error) = queue.send(&job.encode(), delay).await {
        tracing::warn!("Could not enqueue {job:?}; the next sweep enqueues it again: {}", chain(&error));
    }
}
