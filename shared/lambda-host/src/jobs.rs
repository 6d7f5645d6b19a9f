//! The queue of jobs.

use crate::misplaced;
use edge::Plane;
use edge::registry::{Function, Trigger};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Deserialize, Serialize};

/// Messages of a queue. Only what we read.
#[derive(Debug, Deserialize)]
pub struct QueueEvent {
    #[serde(rename = "Records")]
    records: Vec<Message>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    message_id: String,
    body: String,
}

/// Which parts of a batch must come again.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchAnswer {
    pub(crate) batch_item_failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) item_identifier: String,
}

/// Messages to [`edge::jobs::run`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<QueueEvent>,
) -> Result<BatchAnswer, Error> {
    match function.trigger {
        Trigger::Jobs => Ok(work(plane, event.payload).await),
        _ => Err(misplaced(function)),
    }
}

/// Each on its own: one that fails comes again, the others do not.
async fn work(plane: &Plane, event: QueueEvent) -> BatchAnswer {
    let mut answer = BatchAnswer::default();
    for message in event.records {
        if let Err(error) = edge::jobs::run(plane, &message.body).await {
            let id = message.message_id;
            tracing::error!("Job {id} must come again: {}", app::error::chain(&error));
            answer.batch_item_failures.push(Failure { item_identifier: id });
        }
    }
    answer
}
