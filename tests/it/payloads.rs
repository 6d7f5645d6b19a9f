//! What AWS sends to functions: the files of `tests/fixtures/lambda`, and others made out of them.

use crate::stage::viewer;
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
    std::fs::read_to_string(path(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// A payload, with tokens of the operator and of a viewer.
pub fn fixture(name: &str) -> String {
    read(&format!("{name}.json")).replace("$OPERATOR", OPERATOR).replace("$USER", &viewer())
}

/// The same, sent by a worker.
pub fn fixture_by(name: &str, worker: &str) -> String {
    fixture(name).replace("$WORKER", worker)
}

/// What a function should answer.
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

/// A request with some headers more.
pub fn request_with(
    method: &str,
    path_and_query: &str,
    token: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> String {
    let mut request = parsed("http-another-functions");
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

/// A socket that wants to open.
pub fn connect(connection: &str, query: &[(&str, &str)]) -> String {
    let mut opening = parsed("socket-connect-without-token");
    opening["requestContext"]["connectionId"] = json!(connection);
    if !query.is_empty() {
        let list = |value: &str| json!([value]);
        let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), list(value)));
        opening["multiValueQueryStringParameters"] = Value::Object(pairs.collect());
    }
    opening.to_string()
}

/// A frame from a client.
pub fn frame(connection: &str, frame: &Value) -> String {
    let mut message = parsed("socket-message-ping");
    message["requestContext"]["connectionId"] = json!(connection);
    message["body"] = json!(frame.to_string());
    message.to_string()
}

/// A socket is gone.
pub fn disconnect(connection: &str) -> String {
    let mut gone = parsed("socket-disconnect");
    gone["requestContext"]["connectionId"] = json!(connection);
    gone.to_string()
}

/// Records of several payloads in one.
pub fn together(names: &[&str]) -> String {
    let records: Vec<Value> = names.iter().map(|name| parsed(name)["Records"][0].clone()).collect();
    json!({"Records": records}).to_string()
}

/// How a record of a payload is named when it has to come again.
pub fn sequence_number(name: &str) -> Value {
    parsed(name)["Records"][0]["dynamodb"]["SequenceNumber"].clone()
}

/// Records of the table's stream, numbered from 1.
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

/// As the stream spells an attribute. Not by the library that reads it: both could be wrong the same way.
fn attribute(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::B(bytes) => json!({"B": base64::encode(bytes)}),
        odd => panic!("no news of ours holds {odd:?}"),
    }
}

/// A message on the queue of jobs.
pub fn job(body: &str) -> String {
    let mut queue = parsed("queue-two-messages");
    let mut message = queue["Records"][0].take();
    message["body"] = json!(body);
    json!({"Records": [message]}).to_string()
}
