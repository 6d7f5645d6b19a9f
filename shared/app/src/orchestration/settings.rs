//! What can be set about tasks and their sandboxes, by the names of its variables: one list for every host.
//!
//! Every host reads all of it; what only one of them can have is that host's own. `tests/it/settings.rs` compares them. On
//! AWS the parameter of a variable has its name in camel case, without `SUNABA_`.

/// How much may be done at a time, and who has to agree to it.
pub const LIMITS: [&str; 4] = [
    "MAX_CONCURRENT_TASKS_PER_ORG",
    "MAX_CONCURRENT_TASKS_PER_PROJECT",
    "TICKET_HUMAN_REVIEW",
    "APPROVAL_TIMEOUT_SECONDS",
];

/// After how long what is too long.
pub const THRESHOLDS: [&str; 8] = [
    "HEARTBEAT_TIMEOUT_SECONDS",
    "IDLE_THRESHOLD_MINUTES",
    "STUCK_RUNNING_MINUTES",
    "STUCK_STARTING_MINUTES",
    "CREATING_TIMEOUT_SECONDS",
    "START_TIMEOUT_SECONDS",
    "COMPLETING_TIMEOUT_SECONDS",
    "VALIDATION_TIMEOUT_MINUTES",
];

/// What sandboxes are made of, where, and what their workers are told.
pub const SANDBOXES: [&str; 11] = [
    "SUNABA_CALLBACK_URL",
    "AGENT",
    "DAYTONA_API_URL",
    "DAYTONA_TARGET",
    "SUNABA_WORKER_SOURCE",
    "SANDBOX_MEMORY_GB",
    "SANDBOX_CPU",
    "SANDBOX_DISK_GB",
    "SANDBOX_SNAPSHOT",
    "SANDBOX_IMAGE",
    "SANDBOX_LIFETIME_MINUTES",
];
