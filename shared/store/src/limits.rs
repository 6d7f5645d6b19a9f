//! Limits that follow from those of DynamoDB
//! (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>).

/// Maximum size of the packed content of an item. DynamoDB limits an item to 400 KB, including names and keys.
pub const MAX_PACKED_BYTES: usize = 350 * 1000;

/// Maximum size of the packed bodies and segments of a request. DynamoDB limits a transaction to 4 MB.
pub const MAX_TRANSACTION_BYTES: usize = 3_500 * 1000;

/// Maximum size of event data in the log. Larger data is stored as a separate body that the log refers to.
pub const MAX_INLINE_BYTES: usize = 256 * 1024;

/// Maximum number of keys in one `BatchGetItem`.
pub const MAX_BATCH_GET: usize = 100;

/// Retention of an `Idempotency-Key`.
pub const IDEMPOTENCY_SECS: i64 = 7 * 24 * 3600;

/// Retention of what was granted of a quota within a minute.
pub const QUOTA_SECS: i64 = 3600;

/// Retention of a connection. API Gateway closes a socket after two hours.
pub const CONNECTION_SECS: i64 = 3 * 3600;

/// Pieces of kept work expire this much later than the work that refers to them: they are stored before it.
pub const KEPT_SLACK_SECS: i64 = 24 * 3600;
