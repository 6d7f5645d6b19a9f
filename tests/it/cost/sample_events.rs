//! Deterministic sample events of an agent.

use crate::support::batch;
use serde_json::{Value, json};

pub(super) const EVENT_TYPES: [&str; 6] = [
    "agent.message",
    "agent.thinking",
    "agent.tool_use",
    "agent.tool_completed",
    "agent.subagent",
    "agent.diff",
];

/// A numbered batch of typical agent events.
pub(super) fn work(number: u64, count: u64) -> Value {
    let mut work = batch(1, number, number * 100, count);
    for (index, sample) in work["events"].as_array_mut().unwrap().iter_mut().enumerate() {
        let n = usize::try_from(number).unwrap() * 100 + index;
        *sample = event(n);
    }
    work
}

/// An event of about 600 bytes, between a line of thought and a page of output.
pub(super) fn event(n: usize) -> Value {
    let event_type = EVENT_TYPES[n % EVENT_TYPES.len()];
    let data = json!({"turn": n / 10, "tool": "Bash", "text": prose(n, 460)});
    json!({"event_id": format!("01900000-0000-7000-8000-{n:012}"), "event_type": event_type, "source": "agent",
           "event_data": data})
}

/// Random words. They compress to about a quarter; the ratio of real agent output is not measured.
pub(super) fn prose(seed: usize, length: usize) -> String {
    const WORDS: [&str; 48] = [
        "the",
        "a",
        "file",
        "test",
        "function",
        "returns",
        "error",
        "when",
        "reading",
        "stream",
        "and",
        "then",
        "we",
        "should",
        "check",
        "whether",
        "src/main.rs",
        "line",
        "compile",
        "failed",
        "with",
        "exit",
        "code",
        "1",
        "let",
        "result",
        "=",
        "parse(input)?;",
        "expected",
        "found",
        "in",
        "module",
        "store",
        "because",
        "index",
        "of",
        "bounds",
        "commit",
        "branch",
        "merge",
        "to",
        "is",
        "not",
        "cargo",
        "build",
        "warning:",
        "unused",
        "variable",
    ];
    let mut random = Random(seed as u64 + 1);
    let mut text = String::new();
    while text.len() < length {
        text.push_str(WORDS[usize::try_from(random.next() % 48).unwrap()]);
        text.push(' ');
    }
    text.truncate(length);
    text
}

/// Text that hardly compresses.
pub(super) fn noise(length: usize) -> String {
    let mut random = Random(7);
    (0..length).map(|_| char::from(b' ' + 1 + u8::try_from(random.next() % 90).unwrap())).collect()
}

/// A fixed sequence, so that the counts are deterministic.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
