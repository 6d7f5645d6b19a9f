//! Sending frames to sockets through the API Gateway management API.

use aws_sdk_apigatewaymanagement::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;
use domain::ConnectionId;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, Clone)]
pub struct Push {
    client: aws_sdk_apigatewaymanagement::Client,
}

/// A slow socket must not delay the frames for other sockets.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    Sent,
    /// The socket does not exist.
    Gone,
    /// The reason is for the log.
    Failed(String),
}

impl Push {
    pub fn new(client: aws_sdk_apigatewaymanagement::Client) -> Self {
        Self { client }
    }

    /// Sends one frame. Frames to one socket arrive in the order in which they are awaited.
    pub async fn send(&self, connection: &ConnectionId, frame: &str) -> Pushed {
        let post = self.client.post_to_connection().connection_id(connection.as_str());
        match timeout(DEADLINE, post.data(Blob::new(frame)).send()).await {
            Ok(Ok(_)) => Pushed::Sent,
            Ok(Err(SdkError::ServiceError(refused))) if refused.err().is_gone_exception() => Pushed::Gone,
            Ok(Err(SdkError::ServiceError(refused))) => {
                Pushed::Failed(refused.err().code().unwrap_or("unknown").to_owned())
            }
            Ok(Err(_)) => Pushed::Failed("unreachable".into()),
            Err(_) => Pushed::Failed("timeout".into()),
        }
    }

    /// Closes a socket. Idempotent.
    pub async fn close(&self, connection: &ConnectionId) -> Pushed {
        match self.client.delete_connection().connection_id(connection.as_str()).send().await {
            Ok(_) => Pushed::Sent,
            Err(SdkError::ServiceError(refused)) if refused.err().is_gone_exception() => Pushed::Gone,
            Err(_) => Pushed::Failed("unreachable".into()),
        }
    }
}
