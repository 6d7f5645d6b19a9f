//! What the table's stream tells: segments and pulses that were put.

use crate::error::Error;
use crate::items::{get_number, get_text};
use crate::{keys, segments};
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Entity, Event, OrgId};
use std::collections::HashMap;

/// ChangeRecord of one sandbox, task or ticket, in the order of its log.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
    /// Whose.
    pub entity: Entity,
    /// Its org.
    pub org: OrgId,
    /// A sandbox's token generation when this was stored: workers of earlier ones are not told any more. 1 for tasks
    /// and tickets, which have no workers.
    pub generation: u64,
    /// What happened.
    pub events: Vec<Event>,
}

impl ChangeRecord {
    /// Reads the new image of a stream record; `None` if it is not something to tell sockets of.
    pub fn of(image: &HashMap<String, AttributeValue>) -> Result<Option<Self>, Error> {
        let sk = get_text(image, keys::SK)?;
        if !keys::is_broadcast(sk) {
            return Ok(None);
        }
        let entity = keys::entity_of(get_text(image, keys::PK)?)
            .ok_or_else(|| Error::missing("a segment of nothing that has a log"))?;
        let org = OrgId::parse(get_text(image, "org")?).map_err(|e| Error::broken("a segment's org", e))?;
        let first_seq = match image.get("first_seq") {
            Some(_) => Some(get_number(image, "first_seq")?),
            None => None,
        };
        let generation = get_number(image, "generation")?;
        Ok(Some(Self { entity, org, generation, events: segments::events_of(image, first_seq)? }))
    }
}
