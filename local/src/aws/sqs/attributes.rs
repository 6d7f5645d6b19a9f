//! Attributes of a FIFO queue.

use super::limits::{MAX_RETENTION_S, MAX_VISIBILITY_S, MAX_WAIT_S, MIN_RETENTION_S};
use super::refusal::Refusal;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Attributes {
    pub(super) visibility: Duration,
    pub(super) retention: Duration,
    /// Default of a receive.
    pub(super) wait: Duration,
    /// Whether a message without a deduplication id gets one from its body.
    pub(super) content_based: bool,
    pub(super) redrive: Option<Redrive>,
    texts: Texts,
}

/// Where messages go that were received too often.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Redrive {
    dead_letter_target_arn: String,
    pub(super) max_receive_count: u64,
}

impl Redrive {
    /// The name of the dead-letter queue.
    pub(super) fn queue(&self) -> &str {
        self.dead_letter_target_arn.rsplit(':').next().unwrap_or_default()
    }
}

type Texts = BTreeMap<&'static str, String>;

/// The supported attributes with the defaults of AWS. Encryption has no effect here and is only echoed.
const DEFAULTS: [(&str, &str); 7] = [
    ("FifoQueue", "false"),
    ("VisibilityTimeout", "30"),
    ("MessageRetentionPeriod", "345600"),
    ("ReceiveMessageWaitTimeSeconds", "0"),
    ("ContentBasedDeduplication", "false"),
    ("SqsManagedSseEnabled", "true"),
    ("RedrivePolicy", ""),
];

impl Attributes {
    pub(super) fn parse(attributes: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        let known = |name: &String| DEFAULTS.iter().any(|(known, _)| known == name);
        if let Some(unknown) = attributes.keys().find(|name| !known(name)) {
            return Err(Refusal::AttributeName(unknown.clone()));
        }
        let value = |(name, default): (&'static str, &str)| {
            (name, attributes.get(name).map_or(default, String::as_str).to_owned())
        };
        let texts: Texts = DEFAULTS.into_iter().map(value).collect();
        if !flag(&texts, "FifoQueue")? {
            return Err(Refusal::Value(
                "The name is that of a FIFO queue, but FifoQueue is not true.".into(),
            ));
        }
        flag(&texts, "SqsManagedSseEnabled")?;
        Ok(Self {
            visibility: seconds(&texts, "VisibilityTimeout", 0..=MAX_VISIBILITY_S)?,
            retention: seconds(&texts, "MessageRetentionPeriod", MIN_RETENTION_S..=MAX_RETENTION_S)?,
            wait: seconds(&texts, "ReceiveMessageWaitTimeSeconds", 0..=MAX_WAIT_S)?,
            content_based: flag(&texts, "ContentBasedDeduplication")?,
            redrive: redrive(&texts["RedrivePolicy"])?,
            texts,
        })
    }

    /// Whether a queue with these attributes satisfies a request. Attributes that the request omits may have any value.
    pub(super) fn include(&self, requested: &BTreeMap<String, String>) -> bool {
        requested.iter().all(|(name, value)| self.texts.get(name.as_str()) == Some(value))
    }

    pub(super) fn texts(&self) -> &Texts {
        &self.texts
    }
}

fn redrive(policy: &str) -> Result<Option<Redrive>, Refusal> {
    if policy.is_empty() {
        return Ok(None);
    }
    let redrive: Option<Redrive> = serde_json::from_str(policy).ok();
    let valid = redrive.filter(|redrive| (1..=1000).contains(&redrive.max_receive_count));
    valid.map(Some).ok_or(Refusal::AttributeValue("RedrivePolicy"))
}

fn flag(texts: &Texts, name: &'static str) -> Result<bool, Refusal> {
    texts[name].parse().map_err(|_| Refusal::AttributeValue(name))
}

fn seconds(texts: &Texts, name: &'static str, allowed: RangeInclusive<u64>) -> Result<Duration, Refusal> {
    let seconds = texts[name].parse().ok().filter(|seconds| allowed.contains(seconds));
    seconds.map(Duration::from_secs).ok_or(Refusal::AttributeValue(name))
}
