//! Payloads that AWS sends to functions: the files in `tests/fixtures/lambda`, and payloads derived from them.

use crate::harness::viewer;
use crate::support::OPERATOR;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_types::base64;
use edge::stream::Image;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/lambda").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A payload file, with the placeholders of the operator and user tokens filled in.
pub fn fixture(name: &str) -> String {
    read(&format!("{name}.json")).replace("$OPERATOR", OPERATOR).replace("$USER", &viewer())
}

/// The same, with the placeholder of the worker token filled in.
pub fn fixture_with_worker(name: &str, worker: &str) -> String {
    fixture(name).replace("$WORKER", worker)
}

/// The expected response to a payload.
pub fn expected(name: &str) -> Value {
    serde_json::from_str(&read(&format!("{name}.response.json"))).unwrap()
}

fn parsed(name: &str) -> Value {
    serde_json::from_str(&fixture(name)).unwrap()
}

/// A request to the HTTP API.
pub fn request(method: &str, path_and_query: &str, token: &str, body: Option<&Value>) -> String {
    request_with(method, path_and_query, token, body, &[])
}

/// A request with additional headers.
pub fn request_with(
    method: &str,
    path_and_query: &str,
    token: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> String {
    let mut request = parsed("http-get-sandbox");
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    request["rawPath"] = json!(path);
    request["rawQueryString"] = json!(query);
    request["requestContext"]["http"]["method"] = json!(method);
    request["requestContext"]["http"]["path"] = json!(path);
    request["headers"]["authorization"] = json!(format!("Bearer {token}"));
    for (name, value) in headers {
        request["headers"][*name] = json!(value);
    }
    if let Some(body) = body {
        request["body"] = json!(body.to_string());
    }
    request.to_string()
}

/// A `$connect` event.
pub fn connect(connection: &str, query: &[(&str, &str)]) -> String {
    let mut event = parsed("socket-connect-without-token");
    event["requestContext"]["connectionId"] = json!(connection);
    if !query.is_empty() {
        let list = |value: &str| json!([value]);
        let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), list(value)));
        event["multiValueQueryStringParameters"] = Value::Object(pairs.collect());
    }
    event.to_string()
}

/// A `$default` event with a frame from a client.
pub fn frame(connection: &str, frame: &Value) -> String {
    let mut message = parsed("socket-message-ping");
    message["requestContext"]["connectionId"] = json!(connection);
    message["body"] = json!(frame.to_string());
    message.to_string()
}

/// A `$disconnect` event.
pub fn disconnect(connection: &str) -> String {
    let mut event = parsed("socket-disconnect");
    event["requestContext"]["connectionId"] = json!(connection);
    event.to_string()
}

/// One stream payload with the records of several payloads.
pub fn combined(names: &[&str]) -> String {
    let records: Vec<Value> = names.iter().map(|name| parsed(name)["Records"][0].clone()).collect();
    json!({"Records": records}).to_string()
}

/// The sequence number of the record in a stream payload, which identifies it in a partial batch failure.
pub fn sequence_number(name: &str) -> Value {
    parsed(name)["Records"][0]["dynamodb"]["SequenceNumber"].clone()
}

/// A payload of the table stream, with sequence numbers from 1.
pub fn stream(images: &[Image]) -> String {
    let records = images.iter().zip(1..).map(|(image, number)| {
        let mut record = parsed("stream-segment")["Records"][0].clone();
        let change = &mut record["dynamodb"];
        change["Keys"] = json!({"PK": attribute(&image["PK"]), "SK": attribute(&image["SK"])});
        change["NewImage"] = image.iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
        change["SequenceNumber"] = json!(number.to_string());
        record
    });
    json!({"Records": records.collect::<Vec<_>>()}).to_string()
}

/// JSON of an attribute in a stream record. It does not use the library that parses it, which could have the same bug.
fn attribute(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::B(bytes) => json!({"B": base64::encode(bytes)}),
        other => panic!("unexpected attribute type in a stream record: {other:?}"),
    }
}

/// An event of a job queue, with one message.
pub fn job(body: &str) -> String {
    let mut event = parsed("queue-two-messages");
    let mut message = event["Records"][0].take();
    message["body"] = json!(body);
    json!({"Records": [message]}).to_string()
}
