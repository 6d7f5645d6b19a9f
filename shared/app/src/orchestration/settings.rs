//! Environment variables that configure tasks and their sandboxes on every host.
//!
//! Those of a provider are in its registration (`providers::PROVIDERS`). Variables of one host only are defined by that
//! host; `tests/it/settings.rs` compares them. The CloudFormation parameter of a variable has its name in camel case,
//! without `SUNABA_`.

/// What requests may cause: agents, providers, concurrency, approval and rounds of feedback.
pub const LIMITS: [&str; 7] = [
    "SUNABA_AGENTS",
    "SUNABA_PROVIDER",
    "MAX_CONCURRENT_TASKS_PER_ORG",
    "MAX_CONCURRENT_TASKS_PER_PROJECT",
    "TICKET_HUMAN_REVIEW",
    "APPROVAL_TIMEOUT_SECONDS",
    "MAX_FEEDBACK_ROUNDS",
];

/// Timeouts for sandbox lifecycle stages.
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

/// Resources, location and worker configuration of sandboxes.
pub const SANDBOXES: [&str; 9] = [
    "SUNABA_CALLBACK_URL",
    "AGENT",
    "SUNABA_WORKER_SOURCE",
    "SANDBOX_MEMORY_GB",
    "SANDBOX_CPU",
    "SANDBOX_DISK_GB",
    "SANDBOX_SNAPSHOT",
    "SANDBOX_IMAGE",
    "SANDBOX_LIFETIME_MINUTES",
];
