//! JSON-RPC 2.0, one message per line.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Maximum length of a line. The rest of a longer line is dropped, to bound the worker's memory.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// A message from the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Request {
        /// Must be repeated in the response. Any JSON value.
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        /// The id of our request. `None` if it is not one of ours.
        id: Option<u64>,
        result: Result<Value, Error>,
    },
    /// Not a JSON-RPC message.
    Unparsed(String),
}

/// Parses a line: usually one message, several for a batch, none if it is blank.
pub fn parse(line: &[u8]) -> Vec<Incoming> {
    if line.trim_ascii().is_empty() {
        return Vec::new();
    }
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) if !batch.is_empty() => batch.into_iter().map(message).collect(),
        Ok(value) => vec![message(value)],
        Err(_) => vec![Incoming::Unparsed(String::from_utf8_lossy(line).trim_end().to_owned())],
    }
}

fn message(mut value: Value) -> Incoming {
    let id = value.get_mut("id").map(Value::take).filter(|id| !id.is_null());
    let params = value.get_mut("params").map(Value::take).unwrap_or_default();
    match (value.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => Incoming::Request { id, method: method.to_owned(), params },
        (Some(method), None) => Incoming::Notification { method: method.to_owned(), params },
        (None, id) => {
            match (value.get_mut("error").map(Value::take), value.get_mut("result").map(Value::take)) {
                (Some(error), _) if !error.is_null() => {
                    Incoming::Response { id: request_id(id), result: Err(parse_error(&error)) }
                }
                (_, Some(result)) => Incoming::Response { id: request_id(id), result: Ok(result) },
                _ => Incoming::Unparsed(value.to_string()),
            }
        }
    }
}

/// Our ids are numbers; some agents return them as strings.
fn request_id(id: Option<Value>) -> Option<u64> {
    let id = id?;
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

fn parse_error(error: &Value) -> Error {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("unknown error");
    let mut parsed = Error::new(code.unwrap_or(i32::from(ErrorCode::InternalError)), message);
    parsed.data = error.get("data").filter(|data| !data.is_null()).cloned();
    parsed
}

/// The error message with details, which some agents put into `data`.
pub fn describe(error: &Error) -> String {
    let details = error.data.as_ref().map(|data| match data {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("details").or_else(|| fields.get("message")) {
            Some(Value::String(text)) => text.clone(),
            _ => data.to_string(),
        },
        data => data.to_string(),
    });
    match details.filter(|details| !details.is_empty() && *details != error.message) {
        Some(details) => format!("{} ({details})", error.message),
        None => error.message.clone(),
    }
}

/// A request, as a line without the newline.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification, as a line without the newline.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// A response, as a line without the newline.
pub fn response(id: &Value, result: &Result<Value, Error>) -> String {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
    }
}

/// Reads lines until the end of the stream, or until the receiver is dropped.
pub async fn read_lines(
    mut reader: impl AsyncBufRead + Unpin,
    lines: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let chunk = reader.fill_buf().await?;
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(chunk.len(), |end| end + 1);
        let is_eof = chunk.is_empty();
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..used.min(room)]);
        reader.consume(used);
        if (end.is_some() || (is_eof && !line.is_empty()))
            && lines.send(std::mem::take(&mut line)).await.is_err()
        {
            return Ok(());
        }
        if is_eof {
            return Ok(());
        }
    }
}

/// Writes lines until the sender is dropped, then closes the stream.
pub async fn write_lines(
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<String>,
) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_classified() {
        let first = |line: &str| parse(line.as_bytes()).remove(0);
        let request =
            first(r#"{"jsonrpc":"2.0","id":"a-1","method":"fs/read_text_file","params":{"path":"/w/a"}}"#);
        let Incoming::Request { id, method, params } = request else { panic!("{request:?}") };
        assert_eq!(
            (id, method.as_str(), params),
            (json!("a-1"), "fs/read_text_file", json!({"path": "/w/a"}))
        );
        assert!(matches!(first(r#"{"method":"session/update","new":1}"#), Incoming::Notification { .. }));
        let response = first(r#"{"id":7,"result":null}"#);
        assert_eq!(response, Incoming::Response { id: Some(7), result: Ok(Value::Null) });
        assert!(matches!(first(r#"{"id":"7","result":{}}"#), Incoming::Response { id: Some(7), .. }));
        let refused =
            first(r#"{"id":7,"error":{"code":-32000,"message":"Sign in","data":{"details":"no key"}}}"#);
        let Incoming::Response { result: Err(error), .. } = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::AuthRequired);
        assert_eq!(describe(&error), "Sign in (no key)");
        assert_eq!(first("Starting…\r\n"), Incoming::Unparsed("Starting…".to_owned()));
        assert!(matches!(first(r#"{"id":7}"#), Incoming::Unparsed(_)));
        assert!(matches!(first("3"), Incoming::Unparsed(_)));
        assert_eq!(parse(b"  \r\n"), []);
        assert_eq!(parse(br#"[{"method":"a"},{"method":"b"}]"#).len(), 2);
    }

    #[tokio::test]
    async fn last_line_is_read_without_newline() {
        let (sender, mut lines) = mpsc::channel(8);
        read_lines(&b"one\n\ntwo"[..], sender).await.unwrap();
        let mut read = Vec::new();
        while let Some(line) = lines.recv().await {
            read.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(read, ["one\n", "\n", "two"]);
    }
}
