//! A queue of jobs that another function runs, now or after a delay.

use crate::error::Error;
use std::time::Duration;

/// Maximum delay of an SQS message.
pub const MAX_DELAY: Duration = Duration::from_secs(900);

#[derive(Debug, Clone)]
pub struct JobQueue {
    client: aws_sdk_sqs::Client,
    queue_url: String,
}

impl JobQueue {
    pub fn new(client: aws_sdk_sqs::Client, queue_url: impl Into<String>) -> Self {
        Self { client, queue_url: queue_url.into() }
    }

    /// Enqueues a job with a delay in whole seconds. Delivery is at least once.
    pub async fn send(&self, job: &str, delay: Duration) -> Result<(), Error> {
        let secs = delay.min(MAX_DELAY).as_secs();
        let send = self.client.send_message().queue_url(&self.queue_url).message_body(job);
        let send = send.delay_seconds(i32::try_from(secs).unwrap_or(0));
        send.send().await.map_err(|error| Error::from_sdk("the job queue", error))?;
        Ok(())
    }
}
