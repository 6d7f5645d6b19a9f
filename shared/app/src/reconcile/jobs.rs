//! Asking for work: what is due soon, done by another function.

use crate::error::chain;
use contract::jobs::Job;
use futures_util::{StreamExt, stream};
use std::time::Duration;
use store::Jobs;

/// Asks for it now. What it is about is stored by then; if the queue does not take it, the next sweep finds it.
pub(crate) async fn ask(work: &Jobs, job: &Job) {
    ask_later(work, job, Duration::ZERO).await;
}

/// Asks for all of them now, some at a time.
pub(crate) async fn ask_all(work: &Jobs, jobs: &[Job]) {
    const SIDE_BY_SIDE: usize = 16;
    stream::iter(jobs).for_each_concurrent(SIDE_BY_SIDE, |job| ask(work, job)).await;
}

/// Asks for it after a while, in whole seconds.
pub(crate) async fn ask_later(work: &Jobs, job: &Job, delay: Duration) {
    if let Err(error) = work.send(&job.encode(), delay).await {
        tracing::warn!("Could not ask for {job:?}; the next sweep will find it: {}", chain(&error));
    }
}
