//! The Lambda host: payloads as AWS sends them go in, and what comes out is what AWS is answered and what was done.
//!
//! The payloads are files, so that they can be compared with AWS's documentation and with what is recorded on a real
//! account one day.

mod http;
mod jobs;
mod opening;
mod records;
mod sockets;

use crate::payloads::expected;
use crate::stage::body_of;
use serde_json::Value;

/// Compares an answer with the file beside its payload, in which the body is not a text but JSON.
fn check(name: &str, answer: &Value) {
    let mut readable = answer.clone();
    if answer["isBase64Encoded"] != true && answer["body"].is_string() {
        readable["body"] = body_of(answer);
    }
    let expected = expected(name);
    assert!(
        readable == expected,
        "{name}.response.json says {expected:#}\nand the answer is {readable:#}\nIf that is meant, change the file."
    );
}
