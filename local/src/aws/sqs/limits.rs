//! Quotas of SQS: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-quotas.html>

use super::refusal::Refusal;
use std::fmt::Display;
use std::time::Duration;

pub(super) const MAX_VISIBILITY_S: u64 = 12 * 60 * 60;
/// Counted from the receive, including all extensions.
pub(super) const MAX_VISIBILITY: Duration = Duration::from_secs(MAX_VISIBILITY_S);
pub(super) const MIN_RETENTION_S: u64 = 60;
pub(super) const MAX_RETENTION_S: u64 = 14 * 24 * 60 * 60;
pub(super) const MAX_WAIT_S: u64 = 20;
const MAX_MESSAGES: u64 = 10;
/// 256 KiB until August 2025.
const MAX_BODY_BYTES: usize = 1024 * 1024;
const MAX_ID_BYTES: usize = 128;
const MAX_NAME_BYTES: usize = 80;

const NAME_RULE: &str =
    "The name of a FIFO queue has letters, digits, hyphens and underscores, and ends with .fifo.";

/// Only FIFO queues can be created here.
pub(super) fn name(name: &str) -> Result<&str, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let Some(stem) = name.strip_suffix(".fifo") else {
        return Err(Refusal::Unsupported("only FIFO queues can be created here"));
    };
    let good = !stem.is_empty() && name.len() <= MAX_NAME_BYTES && stem.chars().all(plain);
    if good { Ok(name) } else { Err(Refusal::value("QueueName", name, NAME_RULE)) }
}

/// SQS accepts the characters of XML 1.0. JSON allows more, such as U+FFFF.
pub(super) fn body(body: &str) -> Result<(), Refusal> {
    let in_xml = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    match body {
        "" => Err(Refusal::Missing("MessageBody")),
        large if large.len() > MAX_BODY_BYTES => {
            Err(Refusal::Value(format!("The message must be shorter than {MAX_BODY_BYTES} bytes.")))
        }
        invalid if !invalid.chars().all(in_xml) => Err(Refusal::Contents),
        _ => Ok(()),
    }
}

/// A group id or a deduplication id.
pub(super) fn id(parameter: &'static str, id: &str) -> Result<(), Refusal> {
    let good = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    let why = "It has 1 to 128 letters, digits and punctuation marks.";
    if good { Ok(()) } else { Err(Refusal::value(parameter, id, why)) }
}

pub(super) fn count(count: i64) -> Result<usize, Refusal> {
    let within = usize::try_from(count).ok().filter(|count| (1..=MAX_MESSAGES as usize).contains(count));
    within.ok_or_else(|| out_of_range("MaxNumberOfMessages", count, 1, MAX_MESSAGES))
}

pub(super) fn wait(wait_s: i64) -> Result<Duration, Refusal> {
    seconds("WaitTimeSeconds", wait_s, MAX_WAIT_S)
}

pub(super) fn visibility(visibility_s: i64) -> Result<Duration, Refusal> {
    seconds("VisibilityTimeout", visibility_s, MAX_VISIBILITY_S)
}

fn seconds(parameter: &'static str, value_s: i64, max: u64) -> Result<Duration, Refusal> {
    let within = u64::try_from(value_s).ok().filter(|value_s| *value_s <= max);
    within.map(Duration::from_secs).ok_or_else(|| out_of_range(parameter, value_s, 0, max))
}

fn out_of_range(parameter: &'static str, value: impl Display, min: u64, max: u64) -> Refusal {
    Refusal::value(parameter, value, &format!("Must be between {min} and {max}, if provided."))
}
