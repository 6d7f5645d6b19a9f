//! What SQS takes: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-quotas.html>

use super::refusal::Refusal;
use std::fmt::Display;
use std::time::Duration;

pub(super) const MAX_VISIBILITY_S: u64 = 12 * 60 * 60;
/// Counted from the receive, however often somebody asks for more.
pub(super) const MAX_VISIBILITY: Duration = Duration::from_secs(MAX_VISIBILITY_S);
pub(super) const MIN_RETENTION_S: u64 = 60;
pub(super) const MAX_RETENTION_S: u64 = 14 * 24 * 60 * 60;
pub(super) const MAX_WAIT_S: u64 = 20;
const MAX_MESSAGES: u64 = 10;
/// It was a quarter of this until August 2025.
const MAX_BODY_BYTES: usize = 1024 * 1024;
const MAX_ID_BYTES: usize = 128;
const MAX_NAME_BYTES: usize = 80;

const NAME_RULE: &str =
    "The name of a FIFO queue has letters, digits, hyphens and underscores, and ends with .fifo.";

/// Only FIFO queues are made here, and their names show that they are.
pub(super) fn name(name: &str) -> Result<&str, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let Some(stem) = name.strip_suffix(".fifo") else {
        return Err(Refusal::Unsupported("queues that are made here are FIFO queues"));
    };
    let good = !stem.is_empty() && name.len() <= MAX_NAME_BYTES && stem.chars().all(plain);
    if good { Ok(name) } else { Err(Refusal::value("QueueName", name, NAME_RULE)) }
}

/// SQS takes what XML 1.0 can hold. JSON can hold more: U+FFFF needs no escape there.
pub(super) fn body(body: &str) -> Result<(), Refusal> {
    let in_xml = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    match body {
        "" => Err(Refusal::Missing("MessageBody")),
        large if large.len() > MAX_BODY_BYTES => {
            Err(Refusal::Value(format!("The message must be shorter than {MAX_BODY_BYTES} bytes.")))
        }
        odd if !odd.chars().all(in_xml) => Err(Refusal::Contents),
        _ => Ok(()),
    }
}

/// Of a group, or for deduplication.
pub(super) fn id(parameter: &'static str, id: &str) -> Result<(), Refusal> {
    let good = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    let why = "It has 1 to 128 letters, digits and punctuation marks.";
    if good { Ok(()) } else { Err(Refusal::value(parameter, id, why)) }
}

/// How many messages a receive takes.
pub(super) fn count(count: i64) -> Result<usize, Refusal> {
    let within = usize::try_from(count).ok().filter(|count| (1..=MAX_MESSAGES as usize).contains(count));
    within.ok_or_else(|| out_of_range("MaxNumberOfMessages", count, 1, MAX_MESSAGES))
}

/// How long a receive waits.
pub(super) fn wait(wait_s: i64) -> Result<Duration, Refusal> {
    seconds("WaitTimeSeconds", wait_s, MAX_WAIT_S)
}

/// How long a message is hidden.
pub(super) fn visibility(visibility_s: i64) -> Result<Duration, Refusal> {
    seconds("VisibilityTimeout", visibility_s, MAX_VISIBILITY_S)
}

fn seconds(parameter: &'static str, value_s: i64, most: u64) -> Result<Duration, Refusal> {
    let within = u64::try_from(value_s).ok().filter(|value_s| *value_s <= most);
    within.map(Duration::from_secs).ok_or_else(|| out_of_range(parameter, value_s, 0, most))
}

fn out_of_range(parameter: &'static str, value: impl Display, least: u64, most: u64) -> Refusal {
    Refusal::value(parameter, value, &format!("Must be between {least} and {most}, if provided."))
}
