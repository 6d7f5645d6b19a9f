//! Mailboxes: a queue for each sandbox, on which somebody waits for messages.
//!
//! What is in it says only that there is something: a bell. The messages themselves are in the ledger, where their
//! state is, and whoever is woken looks there. So a bell that is lost, doubled or late costs a moment and no message.
//! `docs/decisions/0012-the-ledger-delivers-the-queue-rings.md` says why.

use crate::error::Error;
use aws_sdk_sqs::config::Config;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::types::QueueAttributeName::{FifoQueue, MessageRetentionPeriod, VisibilityTimeout};
use domain::{MessageId, SandboxId};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// All mailboxes of a plane.
#[derive(Debug, Clone)]
pub struct Mailboxes {
    client: aws_sdk_sqs::Client,
    url_prefix: String,
}

/// Why somebody rings. The same bell rings once in five minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUp<'a> {
    /// There is a message.
    Message(&'a MessageId),
    /// What was held back may go, as of this version of the head.
    Settled(u64),
    /// The sandbox has ended.
    Ended,
}

/// What a wait came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Somebody rang: look.
    Rang,
    /// Nobody did.
    Silence,
    /// There is no mailbox to wait at.
    NoMailbox,
}

/// A bell is kept for a minute, the least that SQS allows, and hidden for as long from the first who hears it: so it
/// rings once, and nobody has to delete it.
const BELL_SECS: i32 = 60;

/// What a call may take beyond the time that it is meant to wait.
const MARGIN: Duration = Duration::from_secs(3);

impl Mailboxes {
    /// Queues whose addresses start like this: `https://sqs.…/sunaba-dev-mail-`.
    pub fn new(client: aws_sdk_sqs::Client, url_prefix: impl Into<String>) -> Self {
        Self { client, url_prefix: url_prefix.into() }
    }

    /// Wakes whoever waits for this sandbox. Without a mailbox nobody does.
    pub async fn ring(&self, sandbox: &SandboxId, bell: WakeUp<'_>) -> Result<(), Error> {
        let bell = bell.name();
        let sent = self
            .client
            .send_message()
            .queue_url(self.url(sandbox))
            .message_body(&bell)
            .message_deduplication_id(&bell)
            // Each in a group of its own: what is in flight holds back the rest of its group.
            .message_group_id(bell)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Waits until somebody rings, at most twenty seconds.
    pub async fn wait(&self, sandbox: &SandboxId, wait: Duration) -> Result<Waited, Error> {
        let wait = Self::in_whole_seconds(wait);
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(wait + MARGIN)
            .operation_timeout(wait + MARGIN)
            .build();
        let heard = self
            .client
            .receive_message()
            .queue_url(self.url(sandbox))
            .max_number_of_messages(10)
            .visibility_timeout(BELL_SECS)
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
            .customize()
            .config_override(Config::builder().timeout_config(timeouts))
            .send()
            .await;
        match heard {
            Ok(heard) if heard.messages().is_empty() => Ok(Waited::Silence),
            Ok(_) => Ok(Waited::Rang),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => {
                Ok(Waited::NoMailbox)
            }
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// How long a wait really is: SQS counts in whole seconds, and in no fewer than one.
    pub fn in_whole_seconds(wait: Duration) -> Duration {
        let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Duration::from_secs(secs.clamp(1, 20))
    }

    /// Removes the mailbox of a sandbox that is gone. Removing one that is not there does nothing.
    pub async fn remove(&self, sandbox: &SandboxId) -> Result<(), Error> {
        match self.client.delete_queue().queue_url(self.url(sandbox)).send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refused)) if refused.err().is_queue_does_not_exist() => Ok(()),
            Err(error) => Err(Error::from_sdk(WHAT, error)),
        }
    }

    /// Makes a mailbox. Whoever rings before it is there is not heard: look before you wait. Right after one was removed
    /// its name is blocked for a minute.
    pub async fn make(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let url = self.url(sandbox);
        let name = url.rsplit('/').next().unwrap_or(&url);
        let create = self.client.create_queue().queue_name(name);
        let create = create
            .attributes(FifoQueue, "true")
            .attributes(MessageRetentionPeriod, BELL_SECS.to_string())
            .attributes(VisibilityTimeout, BELL_SECS.to_string());
        create.send().await.map_err(|error| Error::from_sdk(WHAT, error))?;
        Ok(())
    }

    fn url(&self, sandbox: &SandboxId) -> String {
        format!("{}{}.fifo", self.url_prefix, short_name(sandbox))
    }
}

impl WakeUp<'_> {
    /// Each kind has names of its own: senders choose the ids of messages.
    fn name(self) -> String {
        match self {
            Self::Message(id) => format!("message-{id}"),
            Self::Settled(version) => format!("settled-{version}"),
            Self::Ended => "ended".into(),
        }
    }
}

const WHAT: &str = "the mailbox";

/// A queue's name has at most 80 characters, an id up to a hundred: its beginning is for people, the rest tells ids
/// apart that begin alike.
fn short_name(sandbox: &SandboxId) -> String {
    let beginning: String =
        sandbox.as_str().chars().take(20).map(|c| if c == '.' { '-' } else { c }).collect();
    let fingerprint = Sha256::digest(sandbox.as_str());
    let fingerprint: String = fingerprint[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{beginning}-{fingerprint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_of_a_message_silences_another_bell() {
        let ids = ["settled-7", "ended", "message-ended"].map(|id| MessageId::parse(id).unwrap());
        let mut names: Vec<String> = ids.iter().map(|id| WakeUp::Message(id).name()).collect();
        names.extend([WakeUp::Settled(7).name(), WakeUp::Ended.name()]);
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let longest = MessageId::parse("x".repeat(100)).unwrap();
        assert!(WakeUp::Message(&longest).name().len() <= 128, "SQS takes no longer ones");
    }

    #[test]
    fn names_are_short_and_tell_sandboxes_apart() {
        let name = |id: &str| short_name(&SandboxId::parse(id).unwrap());
        let (long, longer) = ("s.".repeat(49), format!("{}x", "s.".repeat(49)));
        assert_ne!(name(&long), name(&longer));
        assert_ne!(name("a.b"), name("a-b"));
        let longest_prefix = "sunaba-abcdefghijklmnop-mail-";
        let whole = format!("{longest_prefix}{}.fifo", name(&long));
        assert!(whole.len() <= 80, "{whole}");
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        assert!(name("a.b_c-D9").chars().all(allowed));
    }
}
