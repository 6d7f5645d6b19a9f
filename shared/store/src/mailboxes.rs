//! Mailboxes: two SQS FIFO queues for each sandbox, which carry its messages to its worker.
//!
//! One queue is for urgent messages, because SQS has no priorities. All messages of a queue are in one group, so
//! nothing overtakes a message that was received and not deleted. The ledger in the table decides which messages are
//! still to be delivered; a queue may lose, repeat or delay its copies.
//! `docs/decisions/0019-carry-messages-in-sqs.md` explains why.

use crate::error::Error;
use aws_sdk_sqs::config::Config;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::types::QueueAttributeName::{FifoQueue, MessageRetentionPeriod, RedrivePolicy};
use domain::SandboxId;
use domain::mailbox::MAX_DELIVERIES;
use sha2::{Digest, Sha256};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Mailboxes {
    client: aws_sdk_sqs::Client,
    url_prefix: String,
    /// ARN of the dead-letter queue. Only functions that create mailboxes know it.
    dead_letters: Option<String>,
    ledger_fallback: bool,
}

/// One of the two queues of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    Urgent,
    Regular,
}

/// A message to enqueue. SQS drops a second one with the same id within five minutes.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub deduplication_id: String,
    pub body: String,
}

/// Parameters of a receive.
#[derive(Debug, Clone, Copy)]
pub struct Receive {
    /// At most 10.
    pub limit: usize,
    /// Rounded up to whole seconds, at most 20.
    pub wait: Duration,
    /// Visibility timeout.
    pub hidden_secs: i64,
}

/// A message that was received and is hidden from other receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    pub queue: Queue,
    pub body: String,
    /// Deletes it, or changes its visibility timeout. Valid until the next receive.
    pub handle: String,
}

/// The result of a call to a queue that may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<T> {
    Done(T),
    NoQueue,
}

/// A page of all mailbox queues of the stage.
#[derive(Debug, Clone)]
pub struct QueuePage {
    pub urls: Vec<String>,
    pub next: Option<String>,
}

/// Sandboxes live for hours. What is older is delivered from the ledger.
const RETENTION_SECS: u64 = 4 * 24 * 60 * 60;
/// The tag with the id of the sandbox: a queue name holds only a digest of it.
const SANDBOX_TAG: &str = "sunaba:sandbox";
/// Maximum number of messages of one receive.
const MAX_RECEIVED: usize = 10;
/// Timeout of a call beyond its intended wait.
const MARGIN: Duration = Duration::from_secs(3);
const WHAT: &str = "the mailbox";

impl Queue {
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Regular];

    pub fn of(urgent: bool) -> Self {
        if urgent { Self::Urgent } else { Self::Regular }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Urgent => "-urgent.fifo",
            Self::Regular => ".fifo",
        }
    }
}

impl Mailboxes {
    /// `url_prefix` is that of all queues, such as `https://sqs.…/sunaba-dev-mail-`.
    pub fn new(client: aws_sdk_sqs::Client, url_prefix: impl Into<String>) -> Self {
        Self { client, url_prefix: url_prefix.into(), dead_letters: None, ledger_fallback: true }
    }

    /// Sets the ARN of the queue that gets the messages that were received too often.
    #[must_use]
    pub fn with_dead_letters(mut self, arn: impl Into<String>) -> Self {
        self.dead_letters = Some(arn.into());
        self
    }

    /// Delivers only what the queues bring. For tests: it shows that the queues carry every message.
    #[must_use]
    pub fn without_ledger_fallback(mut self) -> Self {
        self.ledger_fallback = false;
        self
    }

    /// Whether the ledger delivers what the queues do not bring.
    pub fn has_ledger_fallback(&self) -> bool {
        self.ledger_fallback
    }

    pub async fn send(
        &self,
        sandbox: &SandboxId,
        queue: Queue,
        message: &Outgoing,
    ) -> Result<Reply<()>, Error> {
        let sent = self
            .client
            .send_message()
            .queue_url(self.url(sandbox, queue))
            .message_body(&message.body)
            .message_deduplication_id(&message.deduplication_id)
            .message_group_id(sandbox.as_str())
            .send()
            .await;
        match sent {
            Ok(_) => Ok(Reply::Done(())),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => {
                Ok(Reply::NoQueue)
            }
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Receives the oldest messages, and waits for them if there are none. Safe to drop: what SQS returned to a
    /// dropped call is visible again after its timeout, and the ledger delivers it before.
    pub async fn receive(
        &self,
        sandbox: &SandboxId,
        queue: Queue,
        receive: Receive,
    ) -> Result<Reply<Vec<Incoming>>, Error> {
        let wait = Self::in_whole_seconds(receive.wait);
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(wait + MARGIN)
            .operation_timeout(wait + MARGIN)
            .build();
        let received = self
            .client
            .receive_message()
            .queue_url(self.url(sandbox, queue))
            .max_number_of_messages(i32::try_from(receive.limit.min(MAX_RECEIVED)).unwrap_or(1))
            .visibility_timeout(i32::try_from(receive.hidden_secs).unwrap_or(i32::MAX))
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
            .customize()
            .config_override(Config::builder().timeout_config(timeouts))
            .send()
            .await;
        match received {
            Ok(received) => {
                let messages = received.messages.unwrap_or_default().into_iter();
                let incoming = messages.filter_map(|message| {
                    Some(Incoming { queue, body: message.body?, handle: message.receipt_handle? })
                });
                Ok(Reply::Done(incoming.collect()))
            }
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => {
                Ok(Reply::NoQueue)
            }
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// The actual duration of a wait: SQS takes whole seconds.
    pub fn in_whole_seconds(wait: Duration) -> Duration {
        let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Duration::from_secs(secs.min(20))
    }

    /// Deletes a message from a queue, unless it was received again since.
    pub async fn delete(&self, sandbox: &SandboxId, queue: Queue, handle: &str) -> Result<(), Error> {
        let delete = self.client.delete_message().queue_url(self.url(sandbox, queue)).receipt_handle(handle);
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Changes how long a received message stays hidden, from now on. Zero makes it visible.
    pub async fn hide(
        &self,
        sandbox: &SandboxId,
        queue: Queue,
        handle: &str,
        secs: i64,
    ) -> Result<(), Error> {
        let change = self.client.change_message_visibility().queue_url(self.url(sandbox, queue));
        let change = change.receipt_handle(handle).visibility_timeout(i32::try_from(secs).unwrap_or(0));
        change.send().await.map_err(|error| Error::from_sdk(WHAT, error))?;
        Ok(())
    }

    /// Creates both queues. Idempotent. SQS blocks the name of a deleted queue for a minute.
    pub async fn create(&self, sandbox: &SandboxId) -> Result<(), Error> {
        // Futures of the SDK are large. On the heap they do not add up on the stack of a request.
        let (urgent, regular) = tokio::join!(
            Box::pin(self.create_queue(sandbox, Queue::Urgent)),
            Box::pin(self.create_queue(sandbox, Queue::Regular))
        );
        urgent.and(regular)
    }

    async fn create_queue(&self, sandbox: &SandboxId, queue: Queue) -> Result<(), Error> {
        let url = self.url(sandbox, queue);
        let create = self
            .client
            .create_queue()
            .queue_name(name_of(&url))
            .attributes(FifoQueue, "true")
            .attributes(MessageRetentionPeriod, RETENTION_SECS.to_string())
            .tags(SANDBOX_TAG, sandbox.as_str());
        let create = match &self.dead_letters {
            Some(arn) => {
                let policy =
                    format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{MAX_DELIVERIES}}}"#);
                create.attributes(RedrivePolicy, policy)
            }
            None => create,
        };
        match create.send().await {
            Ok(_) => Ok(()),
            // It was created by an earlier deploy, with other attributes.
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_name_exists() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Deletes both queues with their messages. Idempotent.
    pub async fn remove(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let urls = Queue::ALL.map(|queue| self.url(sandbox, queue));
        let (urgent, regular) =
            tokio::join!(Box::pin(self.remove_queue(&urls[0])), Box::pin(self.remove_queue(&urls[1])));
        urgent.and(regular)
    }

    /// Deletes one queue. Idempotent.
    pub async fn remove_queue(&self, url: &str) -> Result<(), Error> {
        match self.client.delete_queue().queue_url(url).send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// The queues of all mailboxes.
    pub async fn queues(&self, cursor: Option<&str>) -> Result<QueuePage, Error> {
        let list = self.client.list_queues().queue_name_prefix(name_of(&self.url_prefix)).max_results(1000);
        let page = list.set_next_token(cursor.map(str::to_owned)).send().await;
        let page = page.map_err(|error| Error::from_sdk(WHAT, error))?;
        Ok(QueuePage { urls: page.queue_urls.unwrap_or_default(), next: page.next_token })
    }

    /// The sandbox that a queue was created for.
    pub async fn owner(&self, url: &str) -> Result<Reply<Option<SandboxId>>, Error> {
        match self.client.list_queue_tags().queue_url(url).send().await {
            Ok(tagged) => {
                let tag = tagged.tags.and_then(|mut tags| tags.remove(SANDBOX_TAG));
                Ok(Reply::Done(tag.and_then(|id| SandboxId::parse(id).ok())))
            }
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => {
                Ok(Reply::NoQueue)
            }
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// The names of a mailbox's queues.
    pub fn queue_names(&self, sandbox: &SandboxId) -> [String; 2] {
        Queue::ALL.map(|queue| name_of(&self.url(sandbox, queue)).to_owned())
    }

    fn url(&self, sandbox: &SandboxId, queue: Queue) -> String {
        format!("{}{}{}", self.url_prefix, short_name(sandbox), queue.suffix())
    }
}

/// The last segment of a queue URL.
pub fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// SQS limits a queue name to 80 characters, and an id may have 100. The start of the id is for people; the digest
/// makes the name unique. Sandbox ids are not reused, so neither are names.
fn short_name(sandbox: &SandboxId) -> String {
    let prefix: String = sandbox.as_str().chars().take(12).map(|c| if c == '.' { '-' } else { c }).collect();
    let digest = Sha256::digest(sandbox.as_str());
    let digest: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_are_short_and_unique() {
        let name = |id: &str| short_name(&SandboxId::parse(id).unwrap());
        let (long, longer) = ("s.".repeat(49), format!("{}x", "s.".repeat(49)));
        assert_ne!(name(&long), name(&longer));
        assert_ne!(name("a.b"), name("a-b"));
        let longest_prefix = "sunaba-abcdefghijklmnop-mail-";
        let longest = format!("{longest_prefix}{}{}", name(&long), Queue::Urgent.suffix());
        assert!(longest.len() <= 80, "{longest}");
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        assert!(name("a.b_c-D9").chars().all(allowed));
    }
}
