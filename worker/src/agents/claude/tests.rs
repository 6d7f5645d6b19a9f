//! Tests of the driver.

use super::Driver;
use super::normalizer::Normalizer;
use crate::agents::policy::{Mode, Policy};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

/// A standard input that panics.
struct Broken;

impl AsyncWrite for Broken {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        panic!("a bug");
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The owner of the driver then reports the exit of the agent.
#[tokio::test]
async fn panic_of_the_writer_is_a_panic_of_the_driver() {
    let policy = Policy { mode: Mode::AcceptEdits, denied: Vec::new(), root: PathBuf::from("/") };
    let normalizer = Normalizer::new(PathBuf::from("/"));
    let (outputs, _output_receiver) = mpsc::channel(8);
    let (_command_sender, commands) = mpsc::channel(8);
    let mut driver = Driver::new(policy, normalizer, Duration::from_secs(1), outputs);
    let driving = tokio::spawn(async move { driver.run(tokio::io::empty(), Broken, commands).await });
    assert!(driving.await.unwrap_err().is_panic());
}
