//! Identifiers. Each kind is its own type, so that a sandbox id cannot be passed for an org id.

use crate::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of an id. OmoiOS truncates longer sandbox ids silently.
pub const MAX_ID_CHARS: usize = 100;

/// What ids may contain, for documents.
pub const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const CONNECTION_PATTERN: &str = "^[A-Za-z0-9_=-][A-Za-z0-9._=-]*$";

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $field:literal, $extra:literal, $pattern:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(
            #[schemars(length(min = 1, max = MAX_ID_CHARS), regex(pattern = $pattern))] String,
        );

        impl $name {
            /// Accepts 1 to 100 letters, digits, `.`, `_` and `-`, and the additional characters of the kind.
            pub fn parse(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                check_id(&text, $extra).map_err(|reason| Invalid::new($field, reason))?;
                Ok(Self(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A sandbox: the machine of one agent.
    SandboxId, "sandbox_id", "", PATTERN
);
id!(
    /// An organisation. Everything in the plane belongs to exactly one.
    OrgId, "org", "", PATTERN
);
id!(
    /// An event. Chosen by the sender, or generated.
    EventId, "event_id", "", PATTERN
);
id!(
    /// A message to an agent. Chosen by the sender, or generated.
    MessageId, "message_id", "", PATTERN
);
id!(
    /// A task: one unit of work for an agent in a sandbox.
    TaskId, "task_id", "", PATTERN
);
id!(
    /// A ticket: a user's request, carried out by tasks.
    TicketId, "ticket_id", "", PATTERN
);
id!(
    /// A project of an org. Its tasks share a concurrency limit.
    ProjectId, "project_id", "", PATTERN
);
id!(
    /// A session of an agent. Chosen by the agent.
    SessionId, "session_id", "", PATTERN
);
id!(
    /// A WebSocket connection. The ids of API Gateway are base64 for URLs: they may start with `-` or `_` and end in `=`,
    /// so this kind allows more than the others.
    ConnectionId, "connection_id", "=", CONNECTION_PATTERN
);

fn check_id(text: &str, extra: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("must not be empty".into());
    }
    // Browsers and proxies rewrite `.` and `..` in a path.
    let lax = !extra.is_empty() && !text.starts_with('.');
    if !lax && !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("must start with a letter or digit".into());
    }
    // `/api/v1/sandboxes/health` is not a sandbox.
    if text == "health" {
        return Err("is a reserved word".into());
    }
    if text.len() > MAX_ID_CHARS {
        return Err(format!("must be at most {MAX_ID_CHARS} characters"));
    }
    match text.chars().find(|c| !(c.is_ascii_alphanumeric() || ".-_".contains(*c) || extra.contains(*c))) {
        Some(c) => Err(format!("may contain letters, digits, '.', '_' and '-', not {c:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_omoios_are_accepted_and_malformed_ids_are_rejected() {
        for good in ["omoios-1234abcd-a1b2c3", "spec-12345678-expl-aaaaaa", "a.b_c-D9"] {
            assert!(SandboxId::parse(good).is_ok(), "{good}");
        }
        for good in ["L0SM9cOFvHcCIhw=", "-0SM9cOFvHcCIhw=", "_0SM9cOFvHcCI-_="] {
            assert!(ConnectionId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a#b", "a b"] {
            assert_eq!(ConnectionId::parse(bad).unwrap_err().field, "connection_id", "{bad}");
        }
        let long = "x".repeat(MAX_ID_CHARS + 1);
        for bad in ["", ".", "..", "-a", "health", "a=", "a b", "a/b", "a#b", "ä", "*", long.as_str()] {
            assert_eq!(SandboxId::parse(bad).unwrap_err().field, "sandbox_id", "{bad}");
        }
    }
}
