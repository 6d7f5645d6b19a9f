//! Schedules.

use crate::unexpected_payload;
use edge::Plane;
use edge::registry::{Function, Trigger};
use lambda_runtime::{Error, LambdaEvent};
use serde_json::Value;
use std::sync::Arc;

/// Accepts any payload. Its `id`, if there is one, identifies the tick in the log.
pub async fn invoke(
    plane: &Arc<Plane>,
    function: &'static Function,
    event: LambdaEvent<Value>,
) -> Result<(), Error> {
    let Trigger::Schedule(schedule) = function.trigger else { return Err(unexpected_payload(function)) };
    let id = event.payload["id"].as_str().unwrap_or(&event.context.request_id);
    Ok(edge::schedule::run(plane.clone(), function.name, schedule, id).await?)
}
