//! The tail of a worker's log.

/// The tail of a log. Empty if there is no log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail {
    /// Byte offset of `text` in the log.
    pub start: u64,
    /// Each byte that is not UTF-8 is replaced by one `?`, so that offsets in the text are offsets in the log.
    pub text: String,
}

impl Tail {
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
        // A continuation byte, an invalid byte, and an incomplete sequence.
        let bytes = b"\xa9 one \xff caf\xc3\xa9 \xe2\x82";
        let tail = Tail::new(7, bytes);
        assert_eq!(tail, Tail { start: 7, text: "? one ? café ??".to_owned() });
        assert_eq!(tail.text.len(), bytes.len());
    }
}
