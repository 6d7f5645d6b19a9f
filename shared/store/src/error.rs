//! What can go wrong with the table, the queue or the bus, by what the caller can do about it.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error as StdError;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not answer, or asked for patience. Nothing may be concluded; try again.
    #[error("{what} is not available ({code})")]
    Unavailable {
        /// What.
        what: &'static str,
        /// The service's word for it.
        code: String,
        /// What the SDK said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The call or an item is not what it must be. Trying again does not help; someone should look.
    #[error("refused, or not what it must be: {what}")]
    Broken {
        /// What was being done.
        what: String,
        /// What the SDK or the decoder said.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

impl Error {
    pub(crate) fn broken(what: impl Into<String>, source: impl StdError + Send + Sync + 'static) -> Self {
        Self::Broken { what: what.into(), source: Some(Box::new(source)) }
    }

    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Self::Broken { what: what.into(), source: None }
    }

    /// The table's failures.
    pub(crate) fn from_table<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        Self::from_sdk("the table", error)
    }

    /// Refusals that come from our own mistakes are broken; everything else may pass.
    pub(crate) fn from_sdk<E>(what: &'static str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let code = match &error {
            SdkError::ServiceError(refused) => refused.err().code().unwrap_or("unknown").to_owned(),
            SdkError::TimeoutError(_) => "timeout".to_owned(),
            SdkError::DispatchFailure(_) => "not reached".to_owned(),
            _ => "no answer".to_owned(),
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
