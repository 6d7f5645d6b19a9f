//! Schedules.

use crate::misplaced;
use edge::Plane;
use edge::registry::{Function, Trigger};
use lambda_runtime::{Error, LambdaEvent};
use serde::de::IgnoredAny;
use std::sync::Arc;

/// Whatever the scheduler sends, it means: now.
pub async fn invoke(
    plane: &Arc<Plane>,
    function: &'static Function,
    _: LambdaEvent<IgnoredAny>,
) -> Result<(), Error> {
    match function.trigger {
        Trigger::Schedule(schedule) => Ok((schedule.tick)(plane.clone()).await?),
        _ => Err(misplaced(function)),
    }
}
