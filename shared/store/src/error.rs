//! Errors of the table, the queues and the bus, classified by what the caller can do about them.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error as StdError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No response, or throttled. The request may or may not have been applied. Retry.
    #[error("{what} is unavailable ({code})")]
    Unavailable {
        what: &'static str,
        /// The service's error code.
        code: String,
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// An invalid request, a missing permission or a malformed item. Retrying does not help.
    #[error("invalid request or malformed item: {what}")]
    Broken {
        /// The failed operation.
        what: String,
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

impl Error {
    /// A failure that a retry may resolve.
    pub fn unavailable(what: &'static str, why: &'static str) -> Self {
        Self::Unavailable { what, code: why.to_owned(), source: why.into() }
    }

    pub(crate) fn broken(what: impl Into<String>, source: impl StdError + Send + Sync + 'static) -> Self {
        Self::Broken { what: what.into(), source: Some(Box::new(source)) }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Broken { what: what.into(), source: None }
    }

    pub(crate) fn from_table<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        Self::from_sdk("the table", error)
    }

    /// Errors that a bug or the configuration causes are `Broken`. All others are worth a retry.
    pub(crate) fn from_sdk<E>(what: &'static str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let code = match &error {
            SdkError::ServiceError(refused) => refused.err().code().unwrap_or("unknown").to_owned(),
            SdkError::TimeoutError(_) => "timeout".to_owned(),
            SdkError::DispatchFailure(_) => "unreachable".to_owned(),
            _ => "no response".to_owned(),
        };
        match code.as_str() {
            "ValidationException"
            | "SerializationException"
            | "AccessDeniedException"
            | "ResourceNotFoundException"
            | "AWS.SimpleQueueService.NonExistentQueue"
            | "QueueDoesNotExist"
            | "ForbiddenException" => Self::broken(format!("{what}: {code}"), error),
            _ => Self::Unavailable { what, code, source: Box::new(error) },
        }
    }
}
