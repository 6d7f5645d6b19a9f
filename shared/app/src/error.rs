//! Errors of use cases, classified by what the caller can do about them.
//!
//! The message is public; the source is for the log. The message never contains the source.

use contract::{BadInput, ProblemCode};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid input: 400, 413 or 422.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// The caller is not authenticated, or no longer: 401.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// The caller lacks the permission: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// It does not exist, or the caller may not know that it does: 404.
    #[error("{0} was not found.")]
    NotFound(String),
    /// The current state does not allow it: the status of the code, usually 409.
    #[error("{detail}")]
    Conflict {
        code: ProblemCode,
        /// For people.
        detail: String,
        /// Additional fields of the problem, for programs.
        facts: serde_json::Map<String, serde_json::Value>,
    },
    /// A quota is used up: 429. Nothing was stored.
    #[error("{reason} Retry after {retry_after_secs} s.")]
    RateLimited {
        /// Which quota, as a sentence.
        reason: &'static str,
        retry_after_secs: u64,
    },
    /// A dependency is unavailable: 503. The client may retry the same request.
    #[error(
        "Service temporarily unavailable. Retrying is safe: requests with an idempotency key, an id or a batch number are applied once."
    )]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The code host of a repository is unavailable: 503. The client may retry the same request.
    #[error("{0}")]
    CodeHostUnavailable(String),
    /// A bug: 500.
    #[error("Internal server error.")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Fields of every problem, which facts must not overwrite.
const RESERVED_FIELDS: [&str; 7] = ["type", "title", "status", "code", "detail", "request_id", "field"];

impl Error {
    pub(crate) fn conflict(code: ProblemCode, detail: String, facts: serde_json::Value) -> Self {
        let facts = facts.as_object().cloned().unwrap_or_default();
        // Parsers disagree on JSON objects with duplicate names.
        debug_assert!(
            !RESERVED_FIELDS.iter().any(|reserved| facts.contains_key(*reserved)),
            "{code:?}: {facts:?}"
        );
        Self::Conflict { code, detail, facts }
    }

    pub(crate) fn no_sandbox(id: &domain::SandboxId) -> Self {
        Self::NotFound(format!("Sandbox {id}"))
    }

    pub(crate) fn no_entity(entity: &domain::Entity) -> Self {
        let kind = match entity {
            domain::Entity::Sandbox(_) => "Sandbox",
            domain::Entity::Task(_) => "Task",
            domain::Entity::Ticket(_) => "Ticket",
        };
        Self::NotFound(format!("{kind} {}", entity.id()))
    }

    pub(crate) fn no_session(id: &domain::SessionId) -> Self {
        Self::NotFound(format!("Session {id}"))
    }
}

/// An error with all of its sources, for the log.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        text.push_str(": ");
        text.push_str(&current.to_string());
        cause = current.source();
    }
    text
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unavailable { .. } => Self::Unavailable(Box::new(error)),
            store::Error::Broken { .. } => Self::Internal(Box::new(error)),
        }
    }
}

impl From<domain::Invalid> for Error {
    fn from(invalid: domain::Invalid) -> Self {
        Self::BadInput(BadInput::Invalid(invalid))
    }
}
