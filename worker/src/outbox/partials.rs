//! Text that is being written: shown at once or not at all, and never kept.

use super::redact::Secrets;
use super::shared::Shared;
use crate::agents::Partial;
use crate::clock;
use crate::event::first_bytes;
use client::{Attempt, EventIn};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// Longest text of one event: with its escapes it fits a frame.
const MAX_TEXT_BYTES: usize = 12 * 1024;
/// More pieces than this are not worth showing late.
const MAX_PIECES: usize = 64;
/// Whoever does not answer so soon is too slow for live text.
const DEADLINE: Duration = Duration::from_secs(2);
/// For how long the plane is spared after that.
const REST: Duration = Duration::from_secs(5);

/// What was written and not shown yet.
#[derive(Debug, Default)]
pub(super) struct Partials {
    pieces: Mutex<VecDeque<Partial>>,
    ring: Notify,
}

impl Partials {
    /// Adds text. What belongs together goes together.
    pub fn add(&self, partial: Partial) {
        let mut pieces = self.pieces();
        let same =
            |piece: &&mut Partial| piece.message_id == partial.message_id && piece.block == partial.block;
        match pieces.iter_mut().rev().find(same) {
            Some(piece)
                if piece.offset + piece.text.chars().count() as u64 == partial.offset
                    && piece.text.len() + partial.text.len() <= MAX_TEXT_BYTES =>
            {
                piece.text.push_str(&partial.text);
            }
            _ => {
                let mut rest = partial.text.as_str();
                let mut offset = partial.offset;
                while !rest.is_empty() {
                    let text = first_bytes(rest, MAX_TEXT_BYTES);
                    pieces.push_back(Partial { text: text.to_owned(), offset, ..partial.clone() });
                    offset += text.chars().count() as u64;
                    rest = &rest[text.len()..];
                }
            }
        }
        while pieces.len() > MAX_PIECES {
            pieces.pop_front();
        }
        drop(pieces);
        self.ring.notify_one();
    }

    /// Takes what can be shown. What may become a secret stays until more is known.
    fn take(&self, secrets: &Secrets) -> Vec<Partial> {
        let mut pieces = self.pieces();
        let mut taken = Vec::new();
        for mut piece in std::mem::take(&mut *pieces) {
            let certain = secrets.certain(&piece.text).len();
            if certain < piece.text.len() {
                let rest = piece.text.split_off(certain);
                let offset = piece.offset + piece.text.chars().count() as u64;
                pieces.push_back(Partial { text: rest, offset, ..piece.clone() });
            }
            if let Some(masked) = secrets.mask(&piece.text) {
                piece.text = masked;
            }
            if !piece.text.is_empty() {
                taken.push(piece);
            }
        }
        taken
    }

    fn pieces(&self) -> MutexGuard<'_, VecDeque<Partial>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows what is written, as long as the plane keeps up.
pub(super) async fn run(shared: Arc<Shared>) {
    while !shared.is_fenced() {
        shared.partials.ring.notified().await;
        tokio::time::sleep(shared.pace.live).await;
        for piece in shared.partials.take(&shared.voice.secrets) {
            let answer = shared.once.event(&event(&piece), DEADLINE).await;
            if !matches!(answer, Attempt::Answered(_)) {
                tokio::time::sleep(REST).await;
                shared.partials.pieces().clear();
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
        partials.add(partial(0, "the key is plant"));
        let taken = partials.take(&secrets);
        assert_eq!(taken[0].text, "the key is ");
        partials.add(partial(16, "ed-secret, you see"));
        let taken = partials.take(&secrets);
        assert_eq!((taken.len(), taken[0].offset), (1, 11));
        assert_eq!(taken[0].text, "**************, you see");
    }

    #[test]
    fn long_text_is_split_and_little_is_kept() {
        let partials = Partials::default();
        partials.add(partial(0, &"é".repeat(MAX_TEXT_BYTES)));
        let taken = partials.take(&Secrets::default());
        assert_eq!(taken.len(), 2);
        assert_eq!(taken[1].offset, MAX_TEXT_BYTES as u64 / 2);
        for n in 0..1_000 {
            partials.add(partial(n * 100, "gap"));
        }
        assert_eq!(partials.pieces().len(), MAX_PIECES);
    }
}
