//! `sunaba messages`, `sunaba resend` and `sunaba cancel-message`.

use crate::config::commands::{Message, Messages};
use crate::tasks::{plane, response_body};
use anyhow::Context;
use contract::messages::{History, MessageRecord};
use domain::access::UNNAMED_OPERATOR;
use domain::message::{Sender, State};
use domain::{MessageId, SandboxId};
use edge::auth::LOCAL_OPERATOR;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::process::ExitCode;
use terminal::{print, print_line};

/// Longer texts are truncated, so that a message stays on a line or two.
const MAX_TEXT_CHARS: usize = 100;

/// Prints the newest messages, newest last.
pub async fn list(options: &Messages) -> anyhow::Result<ExitCode> {
    let sandbox = SandboxId::parse(&options.sandbox)?;
    let path = format!("/api/v1/sandboxes/{sandbox}/messages/history?limit={}", options.limit);
    let response = response_body(&options.address, plane(&options.address)?.get(&path).await)?;
    let history: History = decode(response)?;
    if history.messages.is_empty() {
        print_line("No messages found.");
    }
    print(&lines(&history.messages));
    Ok(ExitCode::SUCCESS)
}

pub async fn resend(options: &Message) -> anyhow::Result<ExitCode> {
    let message = change(options, "resend").await?;
    let result = match (message.version, message.state) {
        (2.., State::Queued) => "is queued again",
        _ => "is already waiting for delivery",
    };
    print_line(&format!("Message {} {result}.", message.id));
    Ok(ExitCode::SUCCESS)
}

pub async fn cancel(options: &Message) -> anyhow::Result<ExitCode> {
    let message = change(options, "cancel").await?;
    print_line(&format!("Message {} cancelled.", message.id));
    Ok(ExitCode::SUCCESS)
}

async fn change(options: &Message, action: &str) -> anyhow::Result<MessageRecord> {
    let (sandbox, message) = (SandboxId::parse(&options.sandbox)?, MessageId::parse(&options.message)?);
    let path = format!("/api/v1/sandboxes/{sandbox}/messages/{message}/{action}");
    decode(response_body(&options.address, plane(&options.address)?.post(&path, &json!({})).await)?)
}

pub(crate) fn decode<T: DeserializeOwned>(response: Value) -> anyhow::Result<T> {
    serde_json::from_value(response).context("the plane sent an invalid response")
}

/// One line for each message, oldest first. `messages` has the newest first.
fn lines(messages: &[MessageRecord]) -> String {
    let width = |column: fn(&MessageRecord) -> usize| messages.iter().map(column).max().unwrap_or_default();
    let ids = width(|message| message.id.as_str().chars().count());
    let senders = width(|message| sender(&message.sender).chars().count());
    let line = |message: &MessageRecord| {
        let MessageRecord { id, timestamp, state, deliveries, .. } = message;
        let (id, state) = (id.as_str(), state.as_str());
        let (sender, text) = (sender(&message.sender), one_line(&message.content));
        format!("{id:<ids$}  {timestamp}  {state:<13}  {sender:<senders$}  {deliveries:>2}x  {text}\n")
    };
    messages.iter().rev().map(line).collect()
}

/// The id of a user, or the operator, by name if the plane has several.
fn sender(sender: &Sender) -> String {
    match (sender.kind.as_str(), sender.id.as_deref()) {
        ("operator", None | Some(UNNAMED_OPERATOR | LOCAL_OPERATOR)) => "operator".to_owned(),
        ("operator", Some(name)) => format!("operator:{name}"),
        (kind, id) => id.unwrap_or(kind).to_owned(),
    }
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_message_is_printed_on_one_line() {
        assert_eq!(one_line("  use\n\tsqlite \n"), "use sqlite");
        assert_eq!(one_line(&"語".repeat(MAX_TEXT_CHARS)), "語".repeat(MAX_TEXT_CHARS));
        let truncated = one_line(&"語".repeat(MAX_TEXT_CHARS + 1));
        assert_eq!(truncated, format!("{}…", "語".repeat(MAX_TEXT_CHARS)));
    }
}
