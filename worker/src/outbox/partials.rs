//! Partial text: what the model is writing now. Sent at once or dropped, never stored.

use super::Secrets;
use super::shared::Shared;
use crate::agents::Partial;
use crate::clock;
use client::{Attempt, EventIn};
use contract::limits::MAX_PARTIAL_BYTES;
use contract::payloads::{self, AgentPartial, Payload};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// Maximum text of one event as encoded in JSON. Leaves room for the other fields within the plane's limit.
const MAX_TEXT_BYTES: usize = MAX_PARTIAL_BYTES - 2 * 1024;
/// Maximum unsent text per block. Older text is dropped.
const MAX_UNSENT_BYTES: usize = 256 * 1024;
/// Maximum number of blocks that are tracked at the same time.
const MAX_BLOCKS: usize = 16;
/// A plane that takes longer is too slow for partial text.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed request.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// Unsent text of each block.
#[derive(Debug, Default)]
pub(super) struct Partials {
    blocks: Mutex<VecDeque<Partial>>,
    added: Notify,
}

impl Partials {
    /// Appends to the block that it continues, or starts a new one.
    pub fn add(&self, partial: Partial, secrets: &Secrets) {
        let mut blocks = self.blocks();
        let same = |block: &&mut Partial| {
            block.message_id == partial.message_id
                && block.block == partial.block
                && block.offset + block.text.chars().count() as u64 == partial.offset
        };
        match blocks.iter_mut().find(same) {
            Some(block) => {
                block.text.push_str(&partial.text);
                if block.text.len() > MAX_UNSENT_BYTES {
                    split(block, secrets);
                }
            }
            None => blocks.push_back(partial),
        }
        if blocks.len() > MAX_BLOCKS {
            blocks.pop_front();
        }
        drop(blocks);
        self.added.notify_one();
    }

    /// Takes the text that can be sent. A suffix that may be the start of a secret is held back.
    fn take(&self, secrets: &Secrets) -> Vec<Partial> {
        let mut taken = Vec::new();
        for block in self.blocks().iter_mut() {
            let mut ready = split(block, secrets);
            // Mask before splitting: the halves of a split secret would not be recognized.
            if let Some(masked) = secrets.mask(&ready.text) {
                ready.text = masked;
            }
            let mut rest = ready.text.as_str();
            let mut offset = ready.offset;
            while !rest.is_empty() {
                let (text, after) = rest.split_at(fitting_bytes(rest));
                taken.push(Partial { text: text.to_owned(), offset, ..ready.clone() });
                offset += text.chars().count() as u64;
                rest = after;
            }
        }
        taken
    }

    /// Drops the text that could be sent. A suffix that may be the start of a secret stays: without it the rest would
    /// not be recognized.
    fn discard(&self, secrets: &Secrets) {
        for block in self.blocks().iter_mut() {
            split(block, secrets);
        }
    }

    fn blocks(&self) -> MutexGuard<'_, VecDeque<Partial>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits off the text that can be sent. A suffix that may be the start of a secret stays in the block.
fn split(block: &mut Partial, secrets: &Secrets) -> Partial {
    let rest = block.text.split_off(secrets.safe_prefix(&block.text).len());
    let offset = block.offset + block.text.chars().count() as u64;
    let rest = Partial { text: rest, offset, ..block.clone() };
    std::mem::replace(block, rest)
}

/// Number of bytes of `text` whose JSON encoding fits in one event.
fn fitting_bytes(text: &str) -> usize {
    let mut written = 0;
    for (at, character) in text.char_indices() {
        written += match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            control if control.is_control() => 6,
            other => other.len_utf8(),
        };
        if written > MAX_TEXT_BYTES {
            return at;
        }
    }
    text.len()
}

/// Sends partial text while the plane keeps up.
pub(super) async fn run(shared: Arc<Shared>) {
    let secrets = &shared.context.secrets;
    while !shared.is_fenced() {
        shared.partials.added.notified().await;
        tokio::time::sleep(shared.timing.partial_interval).await;
        for partial in shared.partials.take(secrets) {
            let attempt = shared.api.event(&event(&partial), REQUEST_TIMEOUT).await;
            if !matches!(attempt, Attempt::Answered(_)) {
                tokio::time::sleep(FAILURE_PAUSE).await;
                shared.partials.discard(secrets);
                break;
            }
        }
    }
}

fn event(partial: &Partial) -> EventIn {
    let data = AgentPartial {
        message_id: partial.message_id.clone(),
        block: partial.block,
        kind: partial.kind.to_owned(),
        offset: partial.offset,
        text: partial.text.clone(),
    };
    EventIn {
        event_id: Uuid::now_v7().to_string(),
        event_type: AgentPartial::EVENT_TYPE.to_owned(),
        event_data: Value::Object(payloads::fields_of(&data)),
        source: "agent".to_owned(),
        emitted_at: Some(clock::now().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(offset: u64, text: &str) -> Partial {
        Partial { message_id: "m".into(), block: 0, kind: "text", offset, text: text.into() }
    }

    #[test]
    fn consecutive_text_is_merged_and_secrets_are_masked() {
        let secrets = Secrets::new(vec![("T".into(), "planted-secret".into())]);
        let partials = Partials::default();
        partials.add(partial(0, "the key is plant"), &secrets);
        let taken = partials.take(&secrets);
        assert_eq!(taken[0].text, "the key is ");
        partials.add(partial(16, "ed-secret, you see"), &secrets);
        let taken = partials.take(&secrets);
        assert_eq!((taken.len(), taken[0].offset), (1, 11));
        assert_eq!(taken[0].text, "**************, you see");
    }

    #[test]
    fn split_secret_is_masked() {
        let secrets = Secrets::new(vec![("T".into(), "planted-secret".into())]);
        for place in [7, MAX_TEXT_BYTES - 5, MAX_TEXT_BYTES - 1, MAX_UNSENT_BYTES - 3] {
            let text = format!("{}planted-secret.", ".".repeat(place));
            for first in [place + 1, place + 2, place + 5, place + 13, MAX_TEXT_BYTES.min(place + 3)] {
                for lost in [false, true] {
                    let partials = Partials::default();
                    partials.add(partial(0, &text[..first]), &secrets);
                    let mut sent = String::new();
                    if lost {
                        partials.discard(&secrets);
                    } else {
                        sent.extend(partials.take(&secrets).into_iter().map(|piece| piece.text));
                    }
                    partials.add(partial(first as u64, &text[first..]), &secrets);
                    sent.extend(partials.take(&secrets).into_iter().map(|piece| piece.text));
                    assert!(sent.ends_with("**************."), "{place} {first} {lost}");
                    assert!(!sent.contains(|c: char| c.is_alphabetic()), "{place} {first} {lost}");
                }
            }
        }
    }

    #[test]
    fn long_text_is_split_and_unsent_text_is_bounded() {
        let (partials, secrets) = (Partials::default(), Secrets::default());
        for text in ["é".repeat(20_000), "\"\n\u{1}".repeat(20_000)] {
            partials.add(partial(0, &text), &secrets);
            let taken = partials.take(&secrets);
            let mut offset = 0;
            for piece in &taken {
                let size = event(piece).event_data.to_string().len();
                assert!(size <= MAX_PARTIAL_BYTES, "{size}");
                assert_eq!(piece.offset, offset);
                offset += piece.text.chars().count() as u64;
            }
            assert_eq!(offset, text.chars().count() as u64);
            partials.blocks().clear();
        }
        for n in 0..1_000 {
            partials.add(partial(n * 100, "gap"), &secrets);
        }
        assert_eq!(partials.blocks().len(), MAX_BLOCKS);
        for n in 0..1_000 {
            partials.add(partial(n * 1_000 + 200_000, &"x".repeat(1_000)), &secrets);
        }
        let unsent: usize = partials.blocks().iter().map(|block| block.text.len()).sum();
        assert!(unsent <= MAX_UNSENT_BYTES + 100, "{unsent}");
    }
}
