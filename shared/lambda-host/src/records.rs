//! The table's stream.

use crate::jobs::{BatchResponse, Failure};
use crate::unexpected_payload;
use edge::Plane;
use edge::registry::{Function, Records, Trigger};
use edge::stream::{Image, broadcast, publish};
use lambda_runtime::{Error, LambdaEvent};
use serde::Deserialize;

/// A stream event with its records in order, and the fields we read.
#[derive(Debug, Deserialize)]
pub struct StreamEvent {
    #[serde(rename = "Records")]
    records: Vec<StreamRecord>,
}

#[derive(Debug, Deserialize)]
struct StreamRecord {
    dynamodb: Change,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change {
    sequence_number: String,
    /// Absent for a deleted item.
    #[serde(default)]
    new_image: Option<serde_dynamo::Item>,
}

/// Passes records to [`edge::stream`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<StreamEvent>,
) -> Result<BatchResponse, Error> {
    match function.trigger {
        Trigger::TableStream(records) => process(plane, records, event.payload).await,
        _ => Err(unexpected_payload(function)),
    }
}

/// Processes the batch as a whole, which is cheapest. If that fails, processes its records one by one, so that those before
/// the failing record are done and Lambda retries from that one on. If the first record fails, the whole invocation fails:
/// Lambda then bisects the batch until the record is alone, and does not discard those behind it. A crash has the same
/// effect.
async fn process(plane: &Plane, kind: Records, event: StreamEvent) -> Result<BatchResponse, Error> {
    let records: Vec<(String, Option<Image>)> = event
        .records
        .into_iter()
        .map(|record| (record.dynamodb.sequence_number, record.dynamodb.new_image.map(Into::into)))
        .collect();
    let images: Vec<Image> = records.iter().filter_map(|(_, image)| image.clone()).collect();
    let Some((first, _)) = records.first() else { return Ok(BatchResponse::default()) };
    if attempt(plane, kind, first, &images).await.is_ok() {
        return Ok(BatchResponse::default());
    }
    let alone = records.len() == 1;
    for (index, (sequence_number, image)) in records.into_iter().enumerate() {
        let Some(image) = image else { continue };
        if let Err(error) = attempt(plane, kind, &sequence_number, &[image]).await {
            let why = app::error::chain(&error);
            tracing::error!(record.sequence = %sequence_number, "Record {sequence_number} failed and will be retried: {why}");
            if index == 0 && !alone {
                return Err(format!("the first record of a batch failed: {why}").into());
            }
            return Ok(BatchResponse {
                batch_item_failures: vec![Failure { item_identifier: sequence_number }],
            });
        }
    }
    Ok(BatchResponse::default())
}

async fn attempt(
    plane: &Plane,
    kind: Records,
    sequence_number: &str,
    images: &[Image],
) -> Result<(), app::Error> {
    match kind {
        Records::Broadcast => broadcast(plane, sequence_number, images).await.map(drop),
        Records::Lifecycle => publish(plane, sequence_number, images).await.map(drop),
    }
}
