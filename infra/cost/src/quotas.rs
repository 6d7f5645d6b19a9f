//! AWS's quotas and limits for us-east-1, from stored copies of its documents; those marked so are from memory.
//! `docs/scale.md` links to them.

/// Requests a second of an account's APIs of all kinds together, with calls to `@connections` among them; beyond it a
/// bucket of 5,000 more.
pub const GATEWAY_REQUESTS: f64 = 10_000.0;
/// Sockets that open a second, of an account.
pub const NEW_SOCKETS: f64 = 500.0;
/// Invocations at the same time, of an account. From memory.
pub const LAMBDA_CONCURRENCY: f64 = 1_000.0;
/// Write units a second of a new table on demand. It grows: twice what there was in the last 30 minutes.
pub const NEW_TABLE_WRITES: f64 = 4_000.0;
/// Write units a second of a table on demand, unless an account asks for more.
pub const TABLE_WRITES: f64 = 40_000.0;
/// Read units a second, likewise.
pub const TABLE_READS: f64 = 40_000.0;
/// Write units a second of a partition, and so of an item. For everybody.
pub const PARTITION_WRITES: f64 = 1_000.0;
/// Read units a second, likewise.
pub const PARTITION_READS: f64 = 3_000.0;
/// How often a second Lambda looks into a shard of a stream. From memory; check.
pub const POLLS_OF_A_SHARD: f64 = 4.0;
