//! The running hash of a sandbox's log. Each segment carries the hash of the log up to its end, and the sandbox that of
//! the whole log. So a segment or body that is changed, removed, added or moved afterwards no longer fits.
//!
//! It covers what is stored: packed events, times, token generations, large bodies. It does not protect against a writer
//! who changes a segment and then all hashes after it, unless a later hash is known from elsewhere: lifecycle events
//! carry one to the event bus (`contract::event_bus`).

use crate::bodies::Body;
use crate::compression::Packed;
use crate::error::Error;
use crate::items::{Item, get_number, get_text};
use crate::keys;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::LogHash;
use sha2::{Digest, Sha256};

/// Keeps these hashes apart from others, and from those of another format.
const FORMAT: &str = "sunaba log 1";

const LOG_HASH: &str = "log_hash";

/// The hash of the data of an event that is too large for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyDigest {
    seq: u64,
    sha256: [u8; 32],
}

impl BodyDigest {
    pub(crate) fn of(body: &Body) -> Self {
        Self { seq: body.seq, sha256: Sha256::digest(&body.bytes).into() }
    }
}

/// The hash of the log up to the end of a segment.
pub(crate) fn of(previous: LogHash, segment: &Item, bodies: &[BodyDigest]) -> Result<LogHash, Error> {
    let mut hash = Sha256::new();
    // The length comes first, so that no two lists of fields give the same bytes.
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(FORMAT.as_bytes());
    field(previous.bytes());
    for name in [keys::PK, "org", "received_at"] {
        field(get_text(segment, name)?.as_bytes());
    }
    for name in ["first_seq", "count", "generation"] {
        field(&get_number(segment, name)?.to_be_bytes());
    }
    let (encoding, packed) = Packed::stored(segment)?;
    field(encoding.as_bytes());
    field(packed);
    for body in bodies {
        field(&body.seq.to_be_bytes());
        field(&body.sha256);
    }
    Ok(LogHash::new(hash.finalize().into()))
}

pub(crate) fn store(segment: &mut Item, hash: LogHash) {
    segment.insert(LOG_HASH.into(), AttributeValue::B(Blob::new(*hash.bytes())));
}

/// `None` in a segment that was stored without one.
pub(crate) fn stored(segment: &Item) -> Result<Option<LogHash>, Error> {
    let Some(value) = segment.get(LOG_HASH) else { return Ok(None) };
    let bytes = value.as_b().ok().and_then(|bytes| <[u8; 32]>::try_from(bytes.as_ref()).ok());
    bytes.map(LogHash::new).map(Some).ok_or_else(|| Error::malformed("a malformed hash of a log"))
}
