//! What can be wrong with what somebody sent.

use domain::Invalid;

/// Wrong input, by what the sender has to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadInput {
    /// It cannot be read at all: 400.
    #[error("{0}")]
    Malformed(String),
    /// It can be read and breaks a rule: 422.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is too large: 413.
    #[error("{}: {}", .0.field, .0.reason)]
    TooLarge(Invalid),
}

impl BadInput {
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid(Invalid::new(field, reason))
    }

    pub(crate) fn too_large(field: impl Into<String>, limit_bytes: usize) -> Self {
        Self::TooLarge(Invalid::new(field, format!("must be at most {limit_bytes} bytes")))
    }
}
