//! Mailboxes: an SQS queue for each sandbox, on which pulls wait for messages.
//!
//! A queue carries wake-ups only. The messages and their states are in the ledger, which a pull reads when it is
//! woken. So a wake-up that is lost, duplicated or late delays a message, but never loses one.
//! `docs/decisions/0012-deliver-messages-from-dynamodb-use-sqs-as-a-wake-up-signal.md` explains why.

use crate::error::Error;
use aws_sdk_sqs::config::Config;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::types::QueueAttributeName::{FifoQueue, MessageRetentionPeriod, VisibilityTimeout};
use domain::{MessageId, SandboxId};
use sha2::{Digest, Sha256};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Mailboxes {
    client: aws_sdk_sqs::Client,
    url_prefix: String,
}

/// Why waiting pulls are woken. SQS drops duplicates of the same wake-up within five minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUp<'a> {
    /// A message was sent.
    Message(&'a MessageId),
    /// Messages were resolved, so those behind them may be delivered. Holds the version of the sandbox.
    Resolved(u64),
    /// The sandbox has ended.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Notified,
    TimedOut,
    /// The queue does not exist.
    NoMailbox,
}

/// Retention of a wake-up (the minimum of SQS), and its visibility timeout. Because they are equal, each wake-up is
/// received once and needs no deletion.
const WAKE_UP_SECS: i32 = 60;

/// Timeout of a call beyond its intended wait.
const MARGIN: Duration = Duration::from_secs(3);

impl Mailboxes {
    /// `url_prefix` is that of all queues, such as `https://sqs.…/sunaba-dev-mail-`.
    pub fn new(client: aws_sdk_sqs::Client, url_prefix: impl Into<String>) -> Self {
        Self { client, url_prefix: url_prefix.into() }
    }

    /// Wakes the pulls that wait for this sandbox. Without a mailbox there are none.
    pub async fn notify(&self, sandbox: &SandboxId, wake_up: WakeUp<'_>) -> Result<(), Error> {
        let name = wake_up.name();
        let sent = self
            .client
            .send_message()
            .queue_url(self.url(sandbox))
            .message_body(&name)
            .message_deduplication_id(&name)
            // One group for each: a message in flight blocks the rest of its group.
            .message_group_id(name)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Waits for a wake-up, for at most 20 seconds.
    pub async fn wait(&self, sandbox: &SandboxId, wait: Duration) -> Result<Waited, Error> {
        let wait = Self::in_whole_seconds(wait);
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(wait + MARGIN)
            .operation_timeout(wait + MARGIN)
            .build();
        let received = self
            .client
            .receive_message()
            .queue_url(self.url(sandbox))
            .max_number_of_messages(10)
            .visibility_timeout(WAKE_UP_SECS)
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
            .customize()
            .config_override(Config::builder().timeout_config(timeouts))
            .send()
            .await;
        match received {
            Ok(received) if received.messages().is_empty() => Ok(Waited::TimedOut),
            Ok(_) => Ok(Waited::Notified),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => {
                Ok(Waited::NoMailbox)
            }
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// The actual duration of a wait: SQS takes whole seconds, and at least one.
    pub fn in_whole_seconds(wait: Duration) -> Duration {
        let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Duration::from_secs(secs.clamp(1, 20))
    }

    /// Deletes the mailbox of a sandbox. Idempotent.
    pub async fn delete(&self, sandbox: &SandboxId) -> Result<(), Error> {
        match self.client.delete_queue().queue_url(self.url(sandbox)).send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Creates a mailbox. Earlier wake-ups were lost, so read the ledger before waiting. SQS blocks the name of a
    /// deleted queue for a minute.
    pub async fn create(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let url = self.url(sandbox);
        let name = url.rsplit('/').next().unwrap_or(&url);
        let create = self.client.create_queue().queue_name(name);
        let create = create
            .attributes(FifoQueue, "true")
            .attributes(MessageRetentionPeriod, WAKE_UP_SECS.to_string())
            .attributes(VisibilityTimeout, WAKE_UP_SECS.to_string());
        create.send().await.map_err(|error| Error::from_sdk(WHAT, error))?;
        Ok(())
    }

    fn url(&self, sandbox: &SandboxId) -> String {
        format!("{}{}.fifo", self.url_prefix, short_name(sandbox))
    }
}

impl WakeUp<'_> {
    /// Prefixed, because senders choose message ids.
    fn name(self) -> String {
        match self {
            Self::Message(id) => format!("message-{id}"),
            Self::Resolved(version) => format!("resolved-{version}"),
            Self::Ended => "ended".into(),
        }
    }
}

const WHAT: &str = "the mailbox";

/// SQS limits a queue name to 80 characters, and an id may have 100. The start of the id is for people; the digest
/// makes the name unique.
fn short_name(sandbox: &SandboxId) -> String {
    let prefix: String = sandbox.as_str().chars().take(20).map(|c| if c == '.' { '-' } else { c }).collect();
    let digest = Sha256::digest(sandbox.as_str());
    let digest: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_id_cannot_collide_with_another_wake_up() {
        let ids = ["resolved-7", "ended", "message-ended"].map(|id| MessageId::parse(id).unwrap());
        let mut names: Vec<String> = ids.iter().map(|id| WakeUp::Message(id).name()).collect();
        names.extend([WakeUp::Resolved(7).name(), WakeUp::Ended.name()]);
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let longest = MessageId::parse("x".repeat(100)).unwrap();
        assert!(
            WakeUp::Message(&longest).name().len() <= 128,
            "SQS limits deduplication ids to 128 characters"
        );
    }

    #[test]
    fn queue_names_are_short_and_unique() {
        let name = |id: &str| short_name(&SandboxId::parse(id).unwrap());
        let (long, longer) = ("s.".repeat(49), format!("{}x", "s.".repeat(49)));
        assert_ne!(name(&long), name(&longer));
        assert_ne!(name("a.b"), name("a-b"));
        let longest_prefix = "sunaba-abcdefghijklmnop-mail-";
        let longest = format!("{longest_prefix}{}.fifo", name(&long));
        assert!(longest.len() <= 80, "{longest}");
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        assert!(name("a.b_c-D9").chars().all(allowed));
    }
}
