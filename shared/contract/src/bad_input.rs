//! Errors of invalid requests.

use domain::Invalid;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadInput {
    /// Cannot be parsed: 400.
    #[error("{0}")]
    Malformed(String),
    /// Can be parsed and breaks a rule: 422.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// 413.
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
