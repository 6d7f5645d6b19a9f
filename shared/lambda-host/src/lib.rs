//! The Lambda host: turns Lambda's payloads into calls on `edge`.
//!
//! A function's `main` has three lines: [`configure`], [`wire`], and one of [`http()`], [`ws()`], [`records()`], [`jobs()`],
//! [`tick()`] by what triggers it. Those that have sandboxes made call [`providers::wire`] instead. Deliberately absent: anything that decides something; that is below `edge`, where the
//! local host finds it too.

pub mod config;
pub mod http;
pub mod jobs;
pub mod providers;
pub mod records;
pub mod tick;
pub mod wiring;
pub mod ws;

pub use config::{Config, configure};
pub use lambda_runtime::Error;
pub use wiring::wire;

use edge::Plane;
use edge::registry::Function;
use futures_util::future::BoxFuture;
use lambda_runtime::{run, service_fn};
use std::sync::Arc;

/// Answers requests of an HTTP API until Lambda ends the process.
pub async fn http(plane: Arc<Plane>, function: &'static Function) -> Result<(), Error> {
    run(service_fn(|event| boxed(http::invoke(&plane, function, event)))).await
}

/// Serves a route of a WebSocket API until Lambda ends the process.
pub async fn ws(plane: Arc<Plane>, function: &'static Function) -> Result<(), Error> {
    run(service_fn(|event| boxed(ws::invoke(&plane, function, event)))).await
}

/// Takes records of the table's stream until Lambda ends the process.
pub async fn records(plane: Arc<Plane>, function: &'static Function) -> Result<(), Error> {
    run(service_fn(|event| boxed(records::invoke(&plane, function, event)))).await
}

/// Does jobs of the queue until Lambda ends the process.
pub async fn jobs(plane: Arc<Plane>, function: &'static Function) -> Result<(), Error> {
    run(service_fn(|event| boxed(jobs::invoke(&plane, function, event)))).await
}

/// Does what is due until Lambda ends the process.
pub async fn tick(plane: Arc<Plane>, function: &'static Function) -> Result<(), Error> {
    run(service_fn(|event| boxed(tick::invoke(&plane, function, event)))).await
}

/// The compiler gives up on a future with all of a use case inside it.
fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// A binary that serves something else than its registry row says.
fn misplaced(function: &Function) -> Error {
    format!("{} is not triggered like this; see the registry", function.name).into()
}
