//! Size limits. Those of the platform are in `store::limits`.

/// Maximum size of an HTTP body. Lambda accepts 6 MB per request, including the JSON around the body, in which every
/// quote of the body takes two bytes (<https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>).
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of a single event as an HTTP body: what Lambda accepts at best. OmoiOS's worker attaches a transcript in
/// base64, which has no quotes, to its report about a task.
pub const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;

/// Maximum size of an event that may be a worker's final report, as an HTTP body. If it exceeds [`MAX_EVENT_BYTES`], its
/// largest fields are dropped, so that the outcome is kept. Only the local plane receives such a body; on AWS it does not
/// reach a function.
pub const MAX_REPORT_BYTES: usize = 32 * 1024 * 1024;

/// Maximum size of a batch: the most that a lost request has to send again.
pub const MAX_BATCH_BYTES: usize = 1024 * 1024;

pub const MAX_BATCH_EVENTS: usize = 100;

/// Maximum size of a heartbeat's data. Ephemeral events are not stored, so a frame cannot refer to the full data.
pub const MAX_HEARTBEAT_BYTES: usize = 2 * 1024;

/// Maximum size of partial text. It must fit into one frame, for the same reason.
pub const MAX_PARTIAL_BYTES: usize = 16 * 1024;

/// Maximum number of session entries per request.
pub const MAX_ENTRIES: usize = 500;

pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 200;

/// Maximum size of a WebSocket frame. API Gateway bills and forwards in units of 32 KB
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html>); larger data becomes a reference.
pub const MAX_FRAME_BYTES: usize = 32 * 1024;

/// Maximum number of events on a page.
pub const MAX_PAGE: usize = 500;

/// Maximum number of events on a page of the trajectory, as in OmoiOS.
pub const MAX_TRAJECTORY_PAGE: usize = 1000;

/// A page ends early when its events reach this size: Lambda limits a response to 6 MB.
pub const MAX_PAGE_BYTES: usize = 3 * 1024 * 1024;
