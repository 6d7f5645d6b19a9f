//! What a use case can fail with, by what the caller can do about it.
//!
//! The public sentence is for whoever asked; the source is for the log. The one never contains the other.

use contract::BadInput;

/// A use case that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was sent is wrong: 400, 413 or 422.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// Who is asking is not known, or no longer: 401.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// Who is asking may not do that: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// It does not exist, or that it exists is private: 404.
    #[error("{0} was not found.")]
    NotFound(String),
    /// It cannot be done as things stand: 409.
    #[error("{detail}")]
    Conflict {
        /// A stable word.
        code: &'static str,
        /// A sentence.
        detail: String,
        /// What a program needs to go on from here.
        facts: serde_json::Map<String, serde_json::Value>,
    },
    /// Too much, too fast: 429.
    #[error("This sandbox sends too many events. Try again in {retry_after_secs} s.")]
    RateLimited {
        /// When to try again.
        retry_after_secs: u64,
    },
    /// Something that we need does not answer: 503. The same request may be sent again.
    #[error(
        "The service is not available right now. Try again; nothing is stored twice that carries a number, a key or an id."
    )]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A mistake of ours: 500.
    #[error("Something went wrong on our side.")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What every problem says of itself: no fact may be called so.
const OWN_FIELDS: [&str; 7] = ["type", "title", "status", "code", "detail", "request_id", "field"];

impl Error {
    pub(crate) fn conflict(code: &'static str, detail: String, facts: serde_json::Value) -> Self {
        let facts = facts.as_object().cloned().unwrap_or_default();
        // They stand beside the fields of the problem itself, and JSON with a name twice is read in as many ways.
        debug_assert!(!OWN_FIELDS.iter().any(|own| facts.contains_key(*own)), "{code}: {facts:?}");
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

/// An error and everything that led to it, for the log.
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
    fn from(wrong: domain::Invalid) -> Self {
        Self::BadInput(BadInput::Invalid(wrong))
    }
}
