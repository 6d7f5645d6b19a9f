//! The Lambda host: each test invokes a function with a payload of AWS and checks the response and the side effects.
//!
//! The payloads are files, so that they can be compared with AWS's documentation and, later, with recordings of a real
//! account.

mod handshake;
mod http;
mod jobs;
mod records;
mod sockets;

use crate::harness::body_of;
use crate::payloads::expected;
use serde_json::Value;

/// Compares a response with the file next to its payload. The file has the body as JSON instead of a string.
fn check(name: &str, response: &Value) {
    let mut readable = response.clone();
    if response["isBase64Encoded"] != true && response["body"].is_string() {
        readable["body"] = body_of(response);
    }
    let expected = expected(name);
    assert!(
        readable == expected,
        "{name}.response.json contains {expected:#}\nbut the response is {readable:#}\nIf this change is intended, edit the file."
    );
}
