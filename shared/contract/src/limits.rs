//! Sizes, each named once. The platform's own limits are in `store::limits`.

/// Largest HTTP body of all. Lambda takes 6 MB a request, and the JSON around our body costs some of that
/// (<https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>).
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Largest body of the batch form: a lost request costs at most this much to send again.
pub const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// Most events in a batch.
pub const MAX_BATCH_EVENTS: usize = 100;

/// Largest data of a heartbeat. What is ephemeral is not kept, so there is nowhere to refer to.
pub const MAX_HEARTBEAT_BYTES: usize = 2 * 1024;

/// Largest data of a piece of unfinished text. It must fit a frame whole, for the same reason.
pub const MAX_PARTIAL_BYTES: usize = 16 * 1024;

/// Most entries of a session in one request.
pub const MAX_ENTRIES: usize = 500;

/// Longest `Idempotency-Key`.
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 200;

/// Largest frame on a socket. API Gateway bills and forwards in pieces of 32 KB
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html>); what is larger goes as a
/// reference.
pub const MAX_FRAME_BYTES: usize = 32 * 1024;

/// Most events on a page.
pub const MAX_PAGE: usize = 500;

/// Most events on a page of the trajectory, as OmoiOS has it.
pub const MAX_TRAJECTORY_PAGE: usize = 1000;

/// A page ends early when its events reach this size: Lambda answers with at most 6 MB.
pub const MAX_PAGE_BYTES: usize = 3 * 1024 * 1024;
