//! AWS quotas for us-east-1, from stored copies of its documentation. Those marked "From memory" are not verified.
//! `docs/scale.md` links to the sources.

/// Requests per second and account, for all API types and calls to `@connections` together; burst 5,000.
pub const GATEWAY_REQUESTS: f64 = 10_000.0;
/// New WebSocket connections per second and account.
pub const NEW_SOCKETS: f64 = 500.0;
/// Concurrent invocations per account. From memory.
pub const LAMBDA_CONCURRENCY: f64 = 1_000.0;
/// Write units per second of a new on-demand table. It scales to twice the peak of the last 30 minutes.
pub const NEW_TABLE_WRITES: f64 = 4_000.0;
/// Write units per second of an on-demand table; can be raised on request.
pub const TABLE_WRITES: f64 = 40_000.0;
/// Read units per second of an on-demand table; can be raised on request.
pub const TABLE_READS: f64 = 40_000.0;
/// Write units per second of a partition, and so of an item. Cannot be raised.
pub const PARTITION_WRITES: f64 = 1_000.0;
/// Read units per second of a partition. Cannot be raised.
pub const PARTITION_READS: f64 = 3_000.0;
/// How often Lambda polls a stream shard, per second. From memory.
pub const POLLS_OF_A_SHARD: f64 = 4.0;
