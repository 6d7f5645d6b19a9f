//! Text in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but the characters that need no escape in any part of a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// Encodes a text as one path segment, or as one value of a query or a form.
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_as_one_path_segment() {
        assert_eq!(percent_encoded("0d9c-1.a_b~"), "0d9c-1.a_b~");
        assert_eq!(percent_encoded("a/b ?&=+ü"), "a%2Fb%20%3F%26%3D%2B%C3%BC");
    }
}
