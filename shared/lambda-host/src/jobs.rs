//! The queue of jobs.

use crate::misplaced;
use edge::Plane;
use edge::registry::{Function, Trigger};
use futures_util::future::join_all;
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
        Trigger::Jobs(_) => Ok(work(plane, event.payload).await),
        _ => Err(misplaced(function)),
    }
}

/// Side by side, each on its own: one that waits does not hold up the others, and one that fails comes again alone.
async fn work(plane: &Plane, event: QueueEvent) -> BatchAnswer {
    let done = event.records.into_iter().map(|message| async move {
        let error = edge::jobs::run(plane, &message.body).await.err()?;
        let id = message.message_id;
        tracing::error!(job.id = %id, "Job {id} must come again: {}", app::error::chain(&error));
        Some(Failure { item_identifier: id })
    });
    BatchAnswer { batch_item_failures: join_all(done).await.into_iter().flatten().collect() }
}
