//! What the table's stream brings.

use crate::metrics::{self, Metric};
use crate::plane::Plane;
use app::{Error, events};
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;
use store::record::ChangeRecord;

/// The new image of an item.
pub type Image = HashMap<String, AttributeValue>;

/// Tells sockets of what was written, in the order of the records. Records that are no news are passed over.
pub async fn broadcast(plane: &Plane, images: &[Image]) -> Result<events::broadcast::Outcome, Error> {
    let news = news_in(images);
    if news.is_empty() {
        return Ok(events::broadcast::Outcome::default());
    }
    let deps = events::broadcast::Deps {
        store: &plane.store,
        push: plane.push()?,
        subscriptions: &plane.subscriptions,
        clock: plane.clock.as_ref(),
    };
    let outcome = events::broadcast::run(deps, news).await?;
    let told = [
        Metric::count("EventsDelivered", outcome.delivered),
        Metric::count("SocketsDropped", outcome.dropped),
    ];
    metrics::emit("events-broadcast", plane.clock.now(), &told);
    Ok(outcome)
}

/// Tells the account's event bus of the turns among what was written; how many.
pub async fn publish(plane: &Plane, images: &[Image]) -> Result<usize, Error> {
    let deps = events::publish::Deps { bus: plane.bus()? };
    let published = events::publish::run(deps, news_in(images)).await?;
    metrics::emit("events-publish", plane.clock.now(), &[Metric::count("TurnsPublished", published)]);
    Ok(published)
}

fn news_in(images: &[Image]) -> Vec<ChangeRecord> {
    let mut news = Vec::with_capacity(images.len());
    for image in images {
        match ChangeRecord::of(image) {
            Ok(found) => news.extend(found),
            // It will be no better the next time, and those behind it must not wait. Readers see the gap and ask.
            Err(error) => {
                tracing::error!("Passed over a record that cannot be read: {}", app::error::chain(&error));
            }
        }
    }
    news
}
