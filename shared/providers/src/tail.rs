//! The end of a worker's log.

/// The end of a log. A log that is not there is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail {
    /// Offset in bytes of `text` in the whole log.
    pub start: u64,
    /// Exactly as long as what was printed: each byte that is not UTF-8 is replaced by one `?`, so that offsets in the
    /// text are offsets in the log.
    pub text: String,
}

impl Tail {
    /// These bytes, which begin at `start`.
    pub fn new(start: u64, bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        Self { start, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_replaced_byte_for_byte() {
        // The second half of a character, a byte that no character has, and the first two of three.
        let bytes = b"\xa9 one \xff caf\xc3\xa9 \xe2\x82";
        let tail = Tail::new(7, bytes);
        assert_eq!(tail, Tail { start: 7, text: "? one ? café ??".to_owned() });
        assert_eq!(tail.text.len(), bytes.len());
    }
}
