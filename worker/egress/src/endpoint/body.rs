//! The body of a response: chunk by chunk, with its tokens counted and real keys masked.

use super::usage::Counter;
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Passes chunks on as they arrive. A key is replaced with asterisks, as many as it has bytes, so that the announced
/// length stays correct. Only the beginning of a possible key at the end of a chunk is kept back.
pub(super) struct Guarded {
    inner: reqwest::Body,
    secrets: Vec<String>,
    kept: BytesMut,
    counter: Option<Counter>,
    has_ended: bool,
}

impl Guarded {
    pub(super) fn new(inner: reqwest::Body, secrets: Vec<String>, counter: Option<Counter>) -> Self {
        Self { inner, secrets, kept: BytesMut::new(), counter, has_ended: false }
    }

    /// What can be passed on after another chunk.
    fn next(&mut self, chunk: &Bytes) -> Bytes {
        if let Some(counter) = &mut self.counter {
            counter.read(chunk);
        }
        if self.secrets.is_empty() {
            return chunk.clone();
        }
        self.kept.extend_from_slice(chunk);
        let mut kept = 0;
        for secret in &self.secrets {
            mask(&mut self.kept, secret.as_bytes());
            kept = kept.max(partial(&self.kept, secret.as_bytes()));
        }
        let end = self.kept.len() - kept;
        self.kept.split_to(end).freeze()
    }

    /// What is left after the last chunk.
    fn end(&mut self) -> Bytes {
        self.has_ended = true;
        if let Some(counter) = &mut self.counter {
            counter.end();
        }
        self.kept.split().freeze()
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        while !self.has_ended {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
            let chunk = match frame {
                Some(Err(error)) => return Poll::Ready(Some(Err(error.without_url()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => self.next(&chunk),
                    // Trailers could contain a key, and no service sends any.
                    Err(_) => continue,
                },
                None => self.end(),
            };
            if !chunk.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }
}

/// Replaces all occurrences of `secret`.
pub(super) fn mask(text: &mut [u8], secret: &[u8]) {
    let Some(first) = secret.first() else { return };
    let mut from = 0;
    while let Some(found) = text[from..].iter().position(|byte| byte == first) {
        let start = from + found;
        from = match text.get_mut(start..start + secret.len()) {
            Some(part) if *part == *secret => {
                part.fill(b'*');
                start + secret.len()
            }
            _ => start + 1,
        };
    }
}

/// Length of the longest end of `text` with which `secret` begins.
fn partial(text: &[u8], secret: &[u8]) -> usize {
    let longest = text.len().min(secret.len().saturating_sub(1));
    (1..=longest).rev().find(|length| text.ends_with(&secret[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guarded(chunks: &[&[u8]], secret: &str) -> (Vec<u8>, usize) {
        let mut body = Guarded::new(reqwest::Body::from(""), vec![secret.to_owned()], None);
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(&body.next(&Bytes::copy_from_slice(chunk)));
        }
        let before_end = out.len();
        out.extend_from_slice(&body.end());
        (out, before_end)
    }

    #[test]
    fn key_is_masked_across_chunks() {
        let (text, _) = guarded(&[b"your key secre", b"t-key-1 is wrong: secret-key-1"], "secret-key-1");
        assert_eq!(text, b"your key ************ is wrong: ************");
    }

    #[test]
    fn only_the_beginning_of_a_key_is_kept_back() {
        let (text, before_end) = guarded(&[b"data: 1\n\n", b"data: se"], "secret-key-1");
        assert_eq!((text.len(), before_end), (17, 15));
    }

    proptest! {
        #[test]
        fn masked_text_keeps_its_length_and_has_no_key(text in "[ab]{0,60}", cuts in prop::collection::vec(0..60_usize, 0..4)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            let (masked, _) = guarded(&chunks, "aab");
            prop_assert_eq!(masked.len(), text.len());
            prop_assert!(!masked.windows(3).any(|part| part == b"aab"));
            prop_assert_eq!(masked, text.replace("aab", "***").into_bytes());
        }
    }
}
