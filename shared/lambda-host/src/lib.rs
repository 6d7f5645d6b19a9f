//! The Lambda host: translates Lambda payloads into calls on `edge`.
//!
//! All functions are one executable, whose `main` calls [`run`]; the environment selects the function of the registry.
//! Deliberately absent: any decision. Decisions are below `edge`, where the local host shares them.

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

/// Serves the function that the environment selects, until Lambda ends the process.
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

/// Boxed, because the compiler cannot handle the nested future of a whole use case.
fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// The function's trigger never sends this payload.
fn unexpected_payload(function: &Function) -> Error {
    format!("{} received a payload of another trigger; see the registry", function.name).into()
}
