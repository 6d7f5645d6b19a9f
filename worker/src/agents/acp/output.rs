//! Bounded output of a command.

use std::collections::VecDeque;

/// Keeps the last `limit` bytes.
#[derive(Debug, Default)]
pub struct Output {
    limit: usize,
    bytes: VecDeque<u8>,
    truncated: bool,
}

impl Output {
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        let extra = self.bytes.len().saturating_sub(self.limit);
        self.truncated |= extra > 0;
        self.bytes.drain(..extra);
    }

    /// The text, cut at a character boundary to at most `limit` bytes, and whether it was truncated.
    pub fn text(&self) -> (String, bool) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let is_continuation = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let cut = if self.truncated {
            bytes.iter().take(3).take_while(|byte| is_continuation(byte)).count()
        } else {
            0
        };
        let text = String::from_utf8_lossy(&bytes[cut..]);
        // Replacing invalid UTF-8 makes the text longer.
        let extra = text.len().saturating_sub(self.limit);
        let start = (extra..=text.len()).find(|&start| text.is_char_boundary(start)).unwrap_or(text.len());
        (text[start..].to_owned(), self.truncated || start > 0)
    }
}
