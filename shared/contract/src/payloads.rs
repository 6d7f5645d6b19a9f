//! The data of events: one type per event type, and the list of both.
//!
//! Defined in `domain`, whose rules emit and read events; the worker and the tests use them under this name.

pub use domain::event::catalogue::{
    EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER, PAYLOAD_TYPES, Payload, fields_of, has_worker_context, read,
    schemas,
};
pub use domain::event::payloads::*;

use domain::JsonObject;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// The schema of the data of any event, for the documents. The data itself is a [`JsonObject`].
#[derive(Debug)]
pub struct EventData;

impl JsonSchema for EventData {
    fn schema_name() -> Cow<'static, str> {
        "EventData".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut forms = vec![generator.subschema_for::<JsonObject>()];
        for (event_type, mut payload) in schemas(generator) {
            payload.insert("description".to_owned(), format!("Of `{event_type}`.").into());
            forms.push(payload);
        }
        json_schema!({
            "description": "The data of an event: by event type what the plane and its worker send. Other workers may send \
                other types and fields, and abridged data lacks fields, so clients must accept any object.",
            "anyOf": forms,
        })
    }
}
