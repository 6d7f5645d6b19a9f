//! Timestamps in UTC with microsecond precision.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::borrow::Cow;
use std::fmt;
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

/// Microseconds since 1970 in UTC. Serialized as `2026-01-01T00:00:00.000000Z`, which sorts as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970, clamped to the years 0 to 9999.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(-62_167_219_200_000_000, 253_402_300_799_999_999))
    }

    /// From whole seconds since 1970, as in a JWT.
    pub fn from_secs(secs: i64) -> Self {
        Self::from_micros(secs.saturating_mul(1_000_000))
    }

    /// Parses RFC 3339 with any offset.
    pub fn parse(text: &str) -> Option<Self> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        i64::try_from(moment.unix_timestamp_nanos() / 1_000).ok().map(Self::from_micros)
    }

    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    #[must_use]
    pub fn plus_secs(self, secs: i64) -> Self {
        Self::from_micros(self.0.saturating_add(secs.saturating_mul(1_000_000)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape =
            format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
        let moment =
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000).map_err(|_| fmt::Error)?;
        f.write_str(&moment.format(&shape).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "A time in RFC 3339. In responses it is in UTC with microseconds: `2026-01-01T00:00:00.000000Z`.",
        })
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not an RFC 3339 time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_round_trip_as_text() {
        for micros in [0, 1, 1_767_225_600_123_456, -1] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::parse(&at.to_string()), Some(at), "{at}");
        }
        assert_eq!(Timestamp::from_micros(1_767_225_600_000_000).to_string(), "2026-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::parse("2026-01-01T02:00:00+02:00"), Timestamp::parse("2026-01-01T00:00:00Z"));
        assert_eq!(Timestamp::parse("yesterday"), None);
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
    }
}
