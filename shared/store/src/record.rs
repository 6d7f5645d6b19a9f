//! Records of the table's stream that hold events: log segments and ephemeral events.

use crate::error::Error;
use crate::items::{get_number, get_text};
use crate::{keys, log_hash, segments};
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Entity, Event, LogHash, OrgId};
use std::collections::HashMap;

/// Events of one sandbox, task or ticket, in the order of its log.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
    pub entity: Entity,
    pub org: OrgId,
    /// The sandbox's token generation when this was stored. Sockets of workers with an older generation are closed. 1
    /// for tasks and tickets, which have no workers.
    pub generation: u64,
    pub events: Vec<Event>,
    /// The running hash of the log after these events. Only logs of sandboxes have one.
    pub log_hash: Option<LogHash>,
}

impl ChangeRecord {
    /// Parses the new image of a stream record. `None` if it holds no events.
    pub fn of(image: &HashMap<String, AttributeValue>) -> Result<Option<Self>, Error> {
        let sk = get_text(image, keys::SK)?;
        if !keys::is_broadcast(sk) {
            return Ok(None);
        }
        let entity = keys::entity_of(get_text(image, keys::PK)?)
            .ok_or_else(|| Error::malformed("a segment in a partition that has no log"))?;
        let org = OrgId::parse(get_text(image, "org")?).map_err(|e| Error::broken("a segment's org", e))?;
        let first_seq = match image.get("first_seq") {
            Some(_) => Some(get_number(image, "first_seq")?),
            None => None,
        };
        let generation = get_number(image, "generation")?;
        let (events, log_hash) = (segments::events_of(image, first_seq)?, log_hash::stored(image)?);
        Ok(Some(Self { entity, org, generation, events, log_hash }))
    }
}
