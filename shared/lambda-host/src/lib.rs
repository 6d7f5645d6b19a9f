//! The Lambda host: turns Lambda's payloads into calls on `edge`.
//!
//! All functions are one program, whose `main` calls [`run`]; the environment says which function of the registry it is.
//! Deliberately absent: anything that decides something; that is below `edge`, where the local host finds it too.

pub mod config;
pub mod http;
pub mod jobs;
pub mod providers;
pub mod records;
pub mod tick;
pub mod wiring;
pub mod ws;

pub use config::{Config, Serves};
pub use lambda_runtime::Error;
pub use wiring::wire;

use edge::registry::{Function, Trigger};
use futures_util::future::BoxFuture;
use lambda_runtime::service_fn;

/// Serves what the environment names until Lambda ends the process.
pub async fn run() -> Result<(), Error> {
    let config = config::configure()?;
    let plane = wire(&config).await?;
    let function = match config.serves {
        Serves::Function(function) => function,
        Serves::EveryRoute => {
            return lambda_runtime::run(service_fn(|event| boxed(http::invoke(&plane, None, event)))).await;
        }
    };
    match function.trigger {
        Trigger::Http(_) => {
            lambda_runtime::run(service_fn(|event| boxed(http::invoke(&plane, Some(function), event)))).await
        }
        Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => {
            lambda_runtime::run(service_fn(|event| boxed(ws::invoke(&plane, function, event)))).await
        }
        Trigger::TableStream(_) => {
            lambda_runtime::run(service_fn(|event| boxed(records::invoke(&plane, function, event)))).await
        }
        Trigger::Jobs(_) => {
            lambda_runtime::run(service_fn(|event| boxed(jobs::invoke(&plane, function, event)))).await
        }
        Trigger::Schedule(_) => {
            lambda_runtime::run(service_fn(|event| boxed(tick::invoke(&plane, function, event)))).await
        }
    }
}

/// The compiler gives up on a future with all of a use case inside it.
fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// A payload that this function's trigger never sends.
fn misplaced(function: &Function) -> Error {
    format!("{} is not triggered like this; see the registry", function.name).into()
}
