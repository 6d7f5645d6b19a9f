//! The data of events: one type per event type, and the list of both.
//!
//! Defined in `domain`, whose rules emit and read events; the worker and the tests use them under this name.

pub use domain::event::catalogue::{
    EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER, EventPayload, PAYLOAD_TYPES, Payload, fields_of, read,
    schemas,
};
pub use domain::event::payloads::*;
