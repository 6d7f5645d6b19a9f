//! The queue of jobs: what is to be done a little later, by another function.

use crate::error::Error;
use std::time::Duration;

/// SQS holds a message back for at most this long.
pub const MAX_DELAY: Duration = Duration::from_secs(900);

/// The queue.
#[derive(Debug, Clone)]
pub struct Jobs {
    client: aws_sdk_sqs::Client,
    queue_url: String,
}

impl Jobs {
    /// A queue at this address, reached through this client.
    pub fn new(client: aws_sdk_sqs::Client, queue_url: impl Into<String>) -> Self {
        Self { client, queue_url: queue_url.into() }
    }

    /// Has a job done after `delay`, in whole seconds. It may be done twice.
    pub async fn send(&self, job: &str, delay: Duration) -> Result<(), Error> {
        let secs = delay.min(MAX_DELAY).as_secs();
        let send = self.client.send_message().queue_url(&self.queue_url).message_body(job);
        let send = send.delay_seconds(i32::try_from(secs).unwrap_or(0));
        send.send().await.map_err(|error| Error::from_sdk("the queue of jobs", error))?;
        Ok(())
    }
}
