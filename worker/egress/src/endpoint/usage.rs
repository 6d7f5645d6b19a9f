//! Counts the tokens of a model's responses, as they are streamed.

use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest line of an event stream, and longest response, that is searched for counts.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// Tokens of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Not from a cache.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Counts the tokens of an endpoint, and stops it. Clones are the same meter.
///
/// Deliberately absent: a reader of the counts. Budgets will compare them with a limit, and stop the endpoint.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    tokens: Tokens,
    requests: u64,
    refusal: Option<Refusal>,
}

/// Why an endpoint forwards no requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 402: a budget is used up. Clients do not retry.
    Budget(String),
    /// 429: clients retry later.
    RateLimit(String),
}

impl Meter {
    /// All tokens so far, including those of responses that are still being streamed.
    pub fn tokens(&self) -> Tokens {
        self.state().tokens
    }

    /// Requests that were forwarded.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// Rejects all further requests, or with `None` forwards them again. Running requests continue.
    pub fn refuse(&self, refusal: Option<Refusal>) {
        self.state().refusal = refusal;
    }

    /// Counts a request, unless requests are refused.
    pub(super) fn admit(&self) -> Result<(), Refusal> {
        let mut state = self.state();
        match &state.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => {
                state.requests += 1;
                Ok(())
            }
        }
    }

    fn add(&self, tokens: Tokens) {
        let mut state = self.state();
        state.tokens = state.tokens.combined(tokens, u64::saturating_add);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens {
    fn combined(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input: combine(self.input, other.input),
            output: combine(self.output, other.output),
            cache_read: combine(self.cache_read, other.cache_read),
            cache_write: combine(self.cache_write, other.cache_write),
        }
    }
}

/// Reads one response.
#[derive(Debug)]
pub(super) struct Counter {
    meter: Meter,
    format: Format,
    buffer: Vec<u8>,
    /// The rest of a line or response that is too long is skipped.
    skips: bool,
    /// Counts of this response so far. Later ones replace earlier ones, because they are totals.
    seen: Tokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    EventStream,
}

impl Counter {
    /// `None` for other content than JSON.
    pub(super) fn new(meter: Meter, content_type: &str) -> Option<Self> {
        let format = match content_type.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Format::EventStream,
            "application/json" => Format::Json,
            _ => return None,
        };
        Some(Self { meter, format, buffer: Vec::new(), skips: false, seen: Tokens::default() })
    }

    pub(super) fn read(&mut self, chunk: &[u8]) {
        match self.format {
            Format::Json => self.append(chunk, MAX_RESPONSE_BYTES),
            Format::EventStream => {
                let mut lines = chunk.split_inclusive(|byte| *byte == b'\n');
                lines.by_ref().for_each(|line| {
                    self.append(line, MAX_LINE_BYTES);
                    if line.ends_with(b"\n") {
                        self.end();
                    }
                });
            }
        }
    }

    /// The end of a line or response.
    pub(super) fn end(&mut self) {
        let text = std::mem::take(&mut self.buffer);
        let json = match self.format {
            Format::Json => Some(text.as_slice()),
            Format::EventStream => text.strip_prefix(b"data:"),
        };
        if !std::mem::take(&mut self.skips)
            && let Some(value) = json.and_then(|json| serde_json::from_slice::<Value>(json).ok())
            && let Some(tokens) = tokens_in(&value)
        {
            let total = self.seen.combined(tokens, u64::max);
            self.meter.add(total.combined(self.seen, u64::saturating_sub));
            self.seen = total;
        }
    }

    fn append(&mut self, bytes: &[u8], max: usize) {
        if self.skips || self.buffer.len() + bytes.len() > max {
            self.skips = true;
            self.buffer.clear();
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }
}

impl Drop for Counter {
    /// A client that disconnects does not avoid the counts of the last line.
    fn drop(&mut self) {
        self.end();
    }
}

/// The counts of a response or of an event: of Anthropic's Messages (`usage`, `message.usage`) and of OpenAI's chat
/// completions and responses (`usage`, `response.usage`).
fn tokens_in(value: &Value) -> Option<Tokens> {
    let usage = [&value["usage"], &value["message"]["usage"], &value["response"]["usage"]];
    let usage = usage.into_iter().find(|usage| usage.is_object())?;
    let count = |name: &str| usage[name].as_u64();
    let details = ["prompt_tokens_details", "input_tokens_details"];
    let cached_by_openai = details.iter().find_map(|name| usage[name]["cached_tokens"].as_u64());
    let input = count("input_tokens").or_else(|| count("prompt_tokens")).unwrap_or(0);
    Some(Tokens {
        // OpenAI's count includes cached tokens, Anthropic's does not.
        input: input.saturating_sub(cached_by_openai.unwrap_or(0)),
        output: count("output_tokens").or_else(|| count("completion_tokens")).unwrap_or(0),
        cache_read: cached_by_openai.or_else(|| count("cache_read_input_tokens")).unwrap_or(0),
        cache_write: count("cache_creation_input_tokens").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Tokens {
        Tokens { input, output, cache_read, cache_write }
    }

    #[track_caller]
    fn check(content_type: &str, body: &str, expected: Tokens) {
        // In one piece, and byte by byte.
        for size in [body.len().max(1), 1] {
            let meter = Meter::default();
            let mut counter = Counter::new(meter.clone(), content_type).unwrap();
            body.as_bytes().chunks(size).for_each(|chunk| counter.read(chunk));
            drop(counter);
            assert_eq!(meter.tokens(), expected, "in chunks of {size} bytes");
        }
    }

    #[test]
    fn tokens_of_a_streamed_message_are_counted_once() {
        let body = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\
            \"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n\
            data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"usage\"}}\r\n\r\n\
            data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n\
            data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":20}}\n\ndata: [DONE]\n\n";
        check("text/event-stream; charset=utf-8", body, tokens(10, 20, 5, 3));
    }

    #[test]
    fn tokens_of_complete_responses_are_counted() {
        let anthropic =
            r#"{"usage": {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 4}}"#;
        check("application/json", anthropic, tokens(10, 2, 4, 0));
        let chat = r#"{"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}}"#;
        check("application/json", chat, tokens(6, 2, 4, 0));
        let response = r#"{"usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}}"#;
        check("application/json", response, tokens(6, 2, 4, 0));
    }

    #[test]
    fn tokens_of_streams_of_openai_are_counted() {
        let chat = "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
        check("text/event-stream", chat, tokens(3, 4, 0, 0));
        let response = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}";
        check("text/event-stream", response, tokens(3, 4, 0, 0));
    }

    #[test]
    fn other_content_counts_nothing() {
        for body in ["", "not json", "[]", "{\"usage\": 7}", "{\"usage\": {\"input_tokens\": -1}}"] {
            check("application/json", body, Tokens::default());
        }
        assert!(Counter::new(Meter::default(), "application/x-git-upload-pack-result").is_none());
    }

    #[test]
    fn line_that_is_too_long_is_skipped() {
        let meter = Meter::default();
        let mut counter = Counter::new(meter.clone(), "text/event-stream").unwrap();
        counter.read(b"data: {\"x\":\"");
        for _ in 0..5 {
            counter.read(&vec![b'x'; 1024 * 1024]);
        }
        assert!(counter.buffer.is_empty());
        counter.read(b"\"}\ndata: {\"usage\":{\"output_tokens\":4}}\n");
        assert_eq!(meter.tokens(), tokens(0, 4, 0, 0));
    }
}
