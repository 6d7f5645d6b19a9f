//! Text that is being written: shown at once or not at all, and never kept.

use super::Secrets;
use super::shared::Shared;
use crate::agents::Partial;
use crate::clock;
use client::{Attempt, EventIn};
use contract::limits::MAX_PARTIAL_BYTES;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// Longest text of one event, as JSON writes it: with the rest it fits what the plane takes for one.
const MAX_TEXT_BYTES: usize = MAX_PARTIAL_BYTES - 2 * 1024;
/// More text of one block is not worth showing late.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Blocks that are written at the same time, or were until a moment ago.
const MAX_BLOCKS: usize = 16;
/// Whoever does not answer so soon is too slow for live text.
const DEADLINE: Duration = Duration::from_secs(2);
/// For how long the plane is spared after that.
const REST: Duration = Duration::from_secs(5);

/// What was written and not shown yet, for each block that is being written.
#[derive(Debug, Default)]
pub(super) struct Partials {
    blocks: Mutex<VecDeque<Partial>>,
    ring: Notify,
}

impl Partials {
    /// Adds text. What belongs together goes together.
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
                if block.text.len() > MAX_WAITING_BYTES {
                    split(block, secrets);
                }
            }
            None => blocks.push_back(partial),
        }
        if blocks.len() > MAX_BLOCKS {
            blocks.pop_front();
        }
        drop(blocks);
        self.ring.notify_one();
    }

    /// Takes what can be shown. What may become a secret stays until more is known.
    fn take(&self, secrets: &Secrets) -> Vec<Partial> {
        let mut taken = Vec::new();
        for block in self.blocks().iter_mut() {
            let mut shown = split(block, secrets);
            // Secrets go first: a cut could leave halves that nobody recognises.
            if let Some(masked) = secrets.mask(&shown.text) {
                shown.text = masked;
            }
            let mut rest = shown.text.as_str();
            let mut offset = shown.offset;
            while !rest.is_empty() {
                let (text, after) = rest.split_at(fitting(rest));
                taken.push(Partial { text: text.to_owned(), offset, ..shown.clone() });
                offset += text.chars().count() as u64;
                rest = after;
            }
        }
        taken
    }

    /// Forgets what can be shown. What may become a secret stays: the rest of it would not be known as one.
    fn skip(&self, secrets: &Secrets) {
        for block in self.blocks().iter_mut() {
            split(block, secrets);
        }
    }

    fn blocks(&self) -> MutexGuard<'_, VecDeque<Partial>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits off what can be shown; what may become a secret stays.
fn split(block: &mut Partial, secrets: &Secrets) -> Partial {
    let rest = block.text.split_off(secrets.certain(&block.text).len());
    let offset = block.offset + block.text.chars().count() as u64;
    let rest = Partial { text: rest, offset, ..block.clone() };
    std::mem::replace(block, rest)
}

/// How many bytes of a text fit one event, as JSON writes them.
fn fitting(text: &str) -> usize {
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

/// Shows what is written, as long as the plane keeps up.
pub(super) async fn run(shared: Arc<Shared>) {
    let secrets = &shared.voice.secrets;
    while !shared.is_fenced() {
        shared.partials.ring.notified().await;
        tokio::time::sleep(shared.pace.live).await;
        for piece in shared.partials.take(secrets) {
            let answer = shared.once.event(&event(&piece), DEADLINE).await;
            if !matches!(answer, Attempt::Answered(_)) {
                tokio::time::sleep(REST).await;
                shared.partials.skip(secrets);
                break;
            }
        }
    }
}

fn event(piece: &Partial) -> EventIn {
    EventIn {
        event_id: Uuid::now_v7().to_string(),
        event_type: "agent.partial".to_owned(),
        event_data: json!({
            "message_id": piece.message_id,
            "block": piece.block,
            "kind": piece.kind,
            "offset": piece.offset,
            "text": piece.text,
        }),
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
    fn text_that_belongs_together_goes_together_and_secrets_do_not_go() {
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
    fn a_secret_is_not_shown_however_it_is_cut() {
        let secrets = Secrets::new(vec![("T".into(), "planted-secret".into())]);
        for place in [7, MAX_TEXT_BYTES - 5, MAX_TEXT_BYTES - 1, MAX_WAITING_BYTES - 3] {
            let text = format!("{}planted-secret.", ".".repeat(place));
            for first in [place + 1, place + 2, place + 5, place + 13, MAX_TEXT_BYTES.min(place + 3)] {
                for lost in [false, true] {
                    let partials = Partials::default();
                    partials.add(partial(0, &text[..first]), &secrets);
                    let mut shown = String::new();
                    if lost {
                        partials.skip(&secrets);
                    } else {
                        shown.extend(partials.take(&secrets).into_iter().map(|piece| piece.text));
                    }
                    partials.add(partial(first as u64, &text[first..]), &secrets);
                    shown.extend(partials.take(&secrets).into_iter().map(|piece| piece.text));
                    assert!(shown.ends_with("**************."), "{place} {first} {lost}");
                    assert!(!shown.contains(|c: char| c.is_alphabetic()), "{place} {first} {lost}");
                }
            }
        }
    }

    #[test]
    fn long_text_is_split_so_that_the_plane_takes_it_and_little_is_kept() {
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
        let kept: usize = partials.blocks().iter().map(|block| block.text.len()).sum();
        assert!(kept <= MAX_WAITING_BYTES + 100, "{kept}");
    }
}
