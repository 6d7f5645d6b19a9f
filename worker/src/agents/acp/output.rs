//! What a command writes, kept in bounds.

use std::collections::VecDeque;

/// The end of what was written.
#[derive(Debug, Default)]
pub struct Output {
    limit: usize,
    bytes: VecDeque<u8>,
    truncated: bool,
}

impl Output {
    /// Of at most so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// There is more.
    pub fn push(&mut self, more: &[u8]) {
        self.bytes.extend(more);
        let extra = self.bytes.len().saturating_sub(self.limit);
        self.truncated |= extra > 0;
        self.bytes.drain(..extra);
    }

    /// As text of at most so many bytes, cut between characters, and whether something is missing.
    pub fn text(&self) -> (String, bool) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let is_rest = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let cut =
            if self.truncated { bytes.iter().take(3).take_while(|byte| is_rest(byte)).count() } else { 0 };
        let text = String::from_utf8_lossy(&bytes[cut..]);
        // What is no text grows when it is shown as such.
        let extra = text.len().saturating_sub(self.limit);
        let start = (extra..=text.len()).find(|&start| text.is_char_boundary(start)).unwrap_or(text.len());
        (text[start..].to_owned(), self.truncated || start > 0)
    }
}
