//! Records of the table's stream.

use crate::metrics::{self, Metric};
use crate::plane::Plane;
use crate::spans;
use app::{Error, events};
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;
use store::record::ChangeRecord;
use tracing::Instrument;

/// The new image of an item.
pub type Image = HashMap<String, AttributeValue>;

/// Pushes new events to sockets, in the order of the records. `sequence_number` is that of the first record.
pub async fn broadcast(
    plane: &Plane,
    sequence_number: &str,
    images: &[Image],
) -> Result<events::broadcast::Outcome, Error> {
    push(plane, images).instrument(spans::records("events-broadcast", sequence_number)).await
}

async fn push(plane: &Plane, images: &[Image]) -> Result<events::broadcast::Outcome, Error> {
    let records = decode(images);
    if records.is_empty() {
        return Ok(events::broadcast::Outcome::default());
    }
    let deps = events::broadcast::Deps {
        store: &plane.store,
        push: plane.push()?,
        subscriptions: &plane.subscriptions,
        clock: plane.clock.as_ref(),
    };
    let outcome = events::broadcast::run(deps, records).await?;
    let counts = [
        Metric::count("EventsDelivered", outcome.delivered),
        Metric::count("SocketsDropped", outcome.dropped),
    ];
    metrics::emit("events-broadcast", plane.clock.now(), &counts);
    Ok(outcome)
}

/// Publishes the lifecycle events among the records to EventBridge and returns their number. `sequence_number` is that of
/// the first record.
pub async fn publish(plane: &Plane, sequence_number: &str, images: &[Image]) -> Result<usize, Error> {
    put_events(plane, images).instrument(spans::records("events-publish", sequence_number)).await
}

async fn put_events(plane: &Plane, images: &[Image]) -> Result<usize, Error> {
    let deps = events::publish::Deps { bus: plane.bus()? };
    let published = events::publish::run(deps, decode(images)).await?;
    let count = Metric::count("LifecycleEventsPublished", published);
    metrics::emit("events-publish", plane.clock.now(), &[count]);
    Ok(published)
}

/// Items that carry no events are skipped.
fn decode(images: &[Image]) -> Vec<ChangeRecord> {
    let mut records = Vec::with_capacity(images.len());
    for image in images {
        match ChangeRecord::of(image) {
            Ok(record) => records.extend(record),
            // A retry would fail too and block the records behind it. Clients notice the gap and fetch what is missing.
            Err(error) => {
                tracing::error!("Skipped an undecodable stream record: {}", app::error::chain(&error));
            }
        }
    }
    records
}
