//! DynamoDB's limits, and what we make of them
//! (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>).

/// An item may have 400 KB, names and keys included; this much of it is for the packed content.
pub const MAX_PACKED_BYTES: usize = 350 * 1000;

/// A transaction may move 4 MB; this much of it is for one request's packed bodies and segments.
pub const MAX_TRANSACTION_BYTES: usize = 3_500 * 1000;

/// Event data up to this size stays in the log; larger data stands apart and the log refers to it.
pub const MAX_INLINE_BYTES: usize = 256 * 1024;

/// Keys in one `BatchGetItem`.
pub const MAX_BATCH_GET: usize = 100;

/// How long an `Idempotency-Key` is remembered.
pub const IDEMPOTENCY_SECS: i64 = 7 * 24 * 3600;

/// API Gateway ends a socket after two hours; what is stored about one goes an hour later.
pub const CONNECTION_SECS: i64 = 3 * 3600;
