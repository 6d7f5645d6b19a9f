//! JSON-RPC 2.0, one message per line.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Longest line that is read as a message. An agent that writes more without an end has lost its way, and the worker
/// must not run out of memory over it.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// A message from the other side.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// It wants an answer.
    Request {
        /// To be repeated in the answer, whatever it is.
        id: Value,
        /// What it wants.
        method: String,
        /// With what.
        params: Value,
    },
    /// It only says so.
    Notification {
        /// What.
        method: String,
        /// With what.
        params: Value,
    },
    /// It answers.
    Response {
        /// Which request of ours, if it is one.
        id: Option<u64>,
        /// What it answers.
        answer: Result<Value, Error>,
    },
    /// It is none of these.
    Unparsed(String),
}

/// What a line says: usually one message, several if somebody sends a batch, none if it is blank.
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
                    Incoming::Response { id: number(id), answer: Err(read_error(&error)) }
                }
                (_, Some(result)) => Incoming::Response { id: number(id), answer: Ok(result) },
                _ => Incoming::Unparsed(value.to_string()),
            }
        }
    }
}

/// Our own ids are numbers; some agents send them back as text.
fn number(id: Option<Value>) -> Option<u64> {
    let id = id?;
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

fn read_error(error: &Value) -> Error {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
    let mut read = Error::new(code.unwrap_or(i32::from(ErrorCode::InternalError)), message);
    read.data = error.get("data").filter(|data| !data.is_null()).cloned();
    read
}

/// What went wrong, in a sentence: some agents put the reason beside the message.
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

/// A request, as a line without its end.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification, as a line without its end.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// An answer, as a line without its end.
pub fn response(id: &Value, answer: &Result<Value, Error>) -> String {
    match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
    }
}

/// Reads lines until there are no more, or nobody wants them.
pub async fn read_lines(
    mut reader: impl AsyncBufRead + Unpin,
    lines: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let read = reader.fill_buf().await?;
        let end = read.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(read.len(), |end| end + 1);
        let is_over = read.is_empty();
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&read[..used.min(room)]);
        reader.consume(used);
        if (end.is_some() || (is_over && !line.is_empty()))
            && lines.send(std::mem::take(&mut line)).await.is_err()
        {
            return Ok(());
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Writes lines until nobody has more, then closes.
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
    fn a_line_is_a_request_a_notification_an_answer_or_none_of_them() {
        let one = |line: &str| parse(line.as_bytes()).remove(0);
        let request =
            one(r#"{"jsonrpc":"2.0","id":"a-1","method":"fs/read_text_file","params":{"path":"/w/a"}}"#);
        let Incoming::Request { id, method, params } = request else { panic!("{request:?}") };
        assert_eq!(
            (id, method.as_str(), params),
            (json!("a-1"), "fs/read_text_file", json!({"path": "/w/a"}))
        );
        assert!(matches!(one(r#"{"method":"session/update","new":1}"#), Incoming::Notification { .. }));
        let answer = one(r#"{"id":7,"result":null}"#);
        assert_eq!(answer, Incoming::Response { id: Some(7), answer: Ok(Value::Null) });
        assert!(matches!(one(r#"{"id":"7","result":{}}"#), Incoming::Response { id: Some(7), .. }));
        let refused =
            one(r#"{"id":7,"error":{"code":-32000,"message":"Sign in","data":{"details":"no key"}}}"#);
        let Incoming::Response { answer: Err(error), .. } = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::AuthRequired);
        assert_eq!(describe(&error), "Sign in (no key)");
        assert_eq!(one("Starting…\r\n"), Incoming::Unparsed("Starting…".to_owned()));
        assert!(matches!(one(r#"{"id":7}"#), Incoming::Unparsed(_)));
        assert!(matches!(one("3"), Incoming::Unparsed(_)));
        assert_eq!(parse(b"  \r\n"), []);
        assert_eq!(parse(br#"[{"method":"a"},{"method":"b"}]"#).len(), 2);
    }

    #[tokio::test]
    async fn lines_are_read_to_the_last_even_without_its_end() {
        let (sender, mut lines) = mpsc::channel(8);
        read_lines(&b"one\n\ntwo"[..], sender).await.unwrap();
        let mut read = Vec::new();
        while let Some(line) = lines.recv().await {
            read.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(read, ["one\n", "\n", "two"]);
    }
}
