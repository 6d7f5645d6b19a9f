//! The SQS queues of jobs.

use crate::unexpected_payload;
use edge::Plane;
use edge::registry::{Function, Trigger};
use futures_util::future::join_all;
use lambda_runtime::{Error, LambdaEvent};
use serde::{Deserialize, Serialize};

/// An SQS event, with the fields we read.
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

/// Reports the items of a batch that Lambda must retry.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    pub(crate) batch_item_failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) item_identifier: String,
}

/// Passes messages to [`edge::jobs::run`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<QueueEvent>,
) -> Result<BatchResponse, Error> {
    match function.trigger {
        Trigger::Jobs(_) => Ok(run_all(plane, event.payload).await),
        _ => Err(unexpected_payload(function)),
    }
}

/// Runs all jobs concurrently, so that a slow one does not block the others. A failed job is retried alone.
async fn run_all(plane: &Plane, event: QueueEvent) -> BatchResponse {
    let runs = event.records.into_iter().map(|message| async move {
        let error = edge::jobs::run(plane, &message.message_id, &message.body).await.err()?;
        let id = message.message_id;
        tracing::error!(job.id = %id, "Job {id} failed and will be retried: {}", app::error::chain(&error));
        Some(Failure { item_identifier: id })
    });
    BatchResponse { batch_item_failures: join_all(runs).await.into_iter().flatten().collect() }
}
