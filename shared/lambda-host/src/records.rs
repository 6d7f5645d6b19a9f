//! The table's stream.

use crate::jobs::{BatchAnswer, Failure};
use crate::misplaced;
use edge::Plane;
use edge::registry::{Function, Records, Trigger};
use edge::stream::{Image, broadcast, publish};
use lambda_runtime::{Error, LambdaEvent};
use serde::Deserialize;

/// Records of the stream, in order. Only what we read.
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
    /// A deleted item has none.
    #[serde(default)]
    new_image: Option<serde_dynamo::Item>,
}

/// Records to [`edge::stream`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<StreamEvent>,
) -> Result<BatchAnswer, Error> {
    match function.trigger {
        Trigger::TableStream(wanted) => take(plane, wanted, event.payload).await,
        _ => Err(misplaced(function)),
    }
}

/// All together, which costs least. If that fails, one after the other, so that what is before the one that cannot be
/// taken is done, and Lambda comes back with that one first. If it *is* the first, the whole invocation fails: Lambda
/// then halves the batch until it stands alone, and those behind it are not given up with it. A mistake of ours that ends
/// the process does the same.
async fn take(plane: &Plane, wanted: Records, event: StreamEvent) -> Result<BatchAnswer, Error> {
    let records: Vec<(String, Option<Image>)> = event
        .records
        .into_iter()
        .map(|record| (record.dynamodb.sequence_number, record.dynamodb.new_image.map(Into::into)))
        .collect();
    let images: Vec<Image> = records.iter().filter_map(|(_, image)| image.clone()).collect();
    if attempt(plane, wanted, &images).await.is_ok() {
        return Ok(BatchAnswer::default());
    }
    let alone = records.len() == 1;
    for (place, (sequence_number, image)) in records.into_iter().enumerate() {
        let Some(image) = image else { continue };
        if let Err(error) = attempt(plane, wanted, &[image]).await {
            let why = app::error::chain(&error);
            tracing::error!(record.sequence = %sequence_number, "Record {sequence_number} must come again: {why}");
            if place == 0 && !alone {
                return Err(format!("the first record of a batch cannot be taken: {why}").into());
            }
            return Ok(BatchAnswer {
                batch_item_failures: vec![Failure { item_identifier: sequence_number }],
            });
        }
    }
    Ok(BatchAnswer::default())
}

async fn attempt(plane: &Plane, wanted: Records, images: &[Image]) -> Result<(), app::Error> {
    match wanted {
        Records::Broadcast => broadcast(plane, images).await.map(drop),
        Records::Lifecycle => publish(plane, images).await.map(drop),
    }
}
