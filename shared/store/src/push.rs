//! Telling a socket something: the API Gateway management API.

use aws_sdk_apigatewaymanagement::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;
use domain::ConnectionId;
use std::time::Duration;
use tokio::time::timeout;

/// The way to open sockets.
#[derive(Debug, Clone)]
pub struct Push {
    client: aws_sdk_apigatewaymanagement::Client,
}

/// A frame that takes longer holds up those behind it.
const DEADLINE: Duration = Duration::from_secs(5);

/// What became of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// It is on its way.
    Sent,
    /// Nobody is there any more.
    Gone,
    /// It did not get through; the word says why.
    Failed(String),
}

impl Push {
    /// Through this client.
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
            Ok(Err(_)) => Pushed::Failed("not reached".into()),
            Err(_) => Pushed::Failed("no answer".into()),
        }
    }

    /// Ends a socket. One that is gone stays gone.
    pub async fn close(&self, connection: &ConnectionId) -> Pushed {
        match self.client.delete_connection().connection_id(connection.as_str()).send().await {
            Ok(_) => Pushed::Sent,
            Err(SdkError::ServiceError(refused)) if refused.err().is_gone_exception() => Pushed::Gone,
            Err(_) => Pushed::Failed("not reached".into()),
        }
    }
}
