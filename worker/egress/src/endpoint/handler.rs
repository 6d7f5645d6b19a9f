//! Requests that a part of the worker responds to itself.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub type BodyError = Box<dyn Error + Send + Sync>;
/// The body of a request or of a response.
pub type Body = BoxBody<Bytes, BodyError>;
pub type Responding<'a> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>;

/// Responds to requests. The caller has checked the key of the client.
pub trait Handler: Send + Sync + fmt::Debug {
    fn respond(&self, request: Request<Body>) -> Responding<'_>;
}

/// A body that is known completely.
pub fn full(content: impl Into<Bytes>) -> Body {
    Full::new(content.into()).map_err(|never| match never {}).boxed()
}

/// A body that is sent as it is produced. It ends when the sender is dropped; an error aborts the connection.
pub fn streamed(chunks: mpsc::Receiver<Result<Bytes, BodyError>>) -> Body {
    Streamed(chunks).boxed()
}

/// The next piece of a body. `None` at its end.
pub async fn next_chunk(body: &mut Body) -> Option<Result<Bytes, BodyError>> {
    loop {
        match body.frame().await? {
            Err(error) => return Some(Err(error)),
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
        }
    }
}

struct Streamed(mpsc::Receiver<Result<Bytes, BodyError>>);

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
