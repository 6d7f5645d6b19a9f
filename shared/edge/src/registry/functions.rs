//! One row for each Lambda function. `cargo xtask gen` generates files from it.

use super::Permission::{
    BatchGetItem, Bus, CreateMailboxes, DeleteFromMailboxes, DeleteItem, DeleteMailboxes, GetItem,
    IssueTokens, Keys, ListMailboxes, OrchestrationJobs, Providers, PutItem, Query, QueryIndexes,
    ReceiveFromMailboxes, SendToMailboxes, SocketJobs, Sockets, Thresholds, UpdateItem,
};
use super::{Function, Queue, Records, Route, Schedule, Trigger, function, http};
use crate::http::{
    api, branch_workflow, branches, events, messages, monitoring, repositories, sandboxes, sessions, tasks,
    tickets, webhooks, workspaces,
};
use crate::schedule;
use ::http::Method;
use contract::limits::MAX_REPORT_BYTES;
use contract::webhooks::MAX_WEBHOOK_BYTES;
use domain::access::Scope;

/// Timeout of functions that call a code host. API Gateway ends a request after 30 s.
const CODE_HOST_SECS: u32 = 29;

/// Every function of the plane, by group.
pub static FUNCTIONS: &[Function] = &[
    function(
        "sandboxes-health",
        "Report that the API answers",
        http(Method::GET, "/api/v1/sandboxes/health", Scope::Public, sandboxes::HEALTH),
        &[],
    ),
    function(
        "sandboxes-list",
        "List the sandboxes of an org, newest first",
        http(Method::GET, "/api/v1/sandboxes", Scope::ListSandboxes, sandboxes::LIST),
        &[Keys, QueryIndexes, BatchGetItem],
    ),
    function(
        "sandboxes-register",
        "Register a sandbox and create its worker token",
        http(Method::POST, "/api/v1/sandboxes", Scope::ManageSandboxes, sandboxes::REGISTER),
        &[Keys, IssueTokens, GetItem, PutItem, UpdateItem, CreateMailboxes],
    ),
    function(
        "sandboxes-get",
        "Get one sandbox",
        http(Method::GET, "/api/v1/sandboxes/{id}", Scope::ReadSandbox, sandboxes::GET),
        &[Keys, GetItem],
    ),
    function(
        "sandboxes-logs",
        "Read the log of a sandbox's worker",
        http(Method::GET, "/api/v1/sandboxes/{id}/logs", Scope::ReadSandbox, sandboxes::LOGS),
        // `Providers` includes the variables of workers, whose values must be redacted.
        &[Keys, GetItem, Providers],
    )
    // A provider may take 10 s to read a log.
    .timeout_secs(20),
    function(
        "sandboxes-verify",
        "Verify that the log of a sandbox is the one that was written",
        http(Method::GET, "/api/v1/sandboxes/{id}/verification", Scope::ReadSandbox, sandboxes::VERIFY),
        &[Keys, GetItem, Query],
    )
    // Large bodies are read one by one.
    .timeout_secs(20),
    function(
        "sandboxes-preview",
        "Get the provider's link to a port of a sandbox",
        http(Method::GET, "/api/v1/sandboxes/{id}/previews/{port}", Scope::ReadSandbox, sandboxes::PREVIEW),
        &[Keys, GetItem, Providers],
    )
    // A provider may take 10 s.
    .timeout_secs(20),
    function(
        "sandboxes-git-access",
        "Give a worker a short-lived credential for the repository of its task",
        http(Method::POST, "/api/v1/sandboxes/{id}/git-access", Scope::GitAccess, branches::GIT_ACCESS),
        &[Keys, GetItem, UpdateItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "sandboxes-keep-piece",
        "Store a piece of a file that a worker keeps of its workspace",
        http(
            Method::POST,
            "/api/v1/sandboxes/{id}/workspace/pieces",
            Scope::WriteEvents,
            workspaces::STORE_PIECE,
        ),
        &[Keys, GetItem, PutItem, UpdateItem],
    ),
    function(
        "sandboxes-keep-workspace",
        "Keep what a worker has uploaded of its workspace",
        http(Method::POST, "/api/v1/sandboxes/{id}/workspace", Scope::WriteEvents, workspaces::KEEP),
        &[Keys, GetItem, PutItem, UpdateItem],
    ),
    function(
        "sandboxes-rotate-token",
        "Replace the worker token of a sandbox",
        http(Method::POST, "/api/v1/sandboxes/{id}/token", Scope::RotateTokens, sandboxes::ROTATE_TOKEN),
        &[Keys, IssueTokens, GetItem, PutItem, UpdateItem],
    ),
    function(
        "sandboxes-terminate",
        "Terminate a sandbox",
        http(Method::DELETE, "/api/v1/sandboxes/{id}", Scope::ManageSandboxes, sandboxes::TERMINATE),
        &[
            Keys,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            DeleteMailboxes,
            OrchestrationJobs,
        ],
    ),
    function(
        "sandboxes-dispatch",
        "Dispatch tasks; create, monitor and delete their sandboxes",
        Trigger::Jobs(Queue::OrchestrationJobs),
        &[
            IssueTokens,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            SendToMailboxes,
            CreateMailboxes,
            DeleteMailboxes,
            OrchestrationJobs,
            Providers,
            Thresholds,
        ],
    )
    // Half a minute more than the longest job (`JOB_SECS` in `domain::timeouts`): providers may be slow.
    .timeout_secs(240)
    // Five concurrent jobs, and each may hold a worker executable of about 11 MB, twice while it downloads.
    .memory_mb(512),
    function(
        "sandboxes-sweep",
        "Run the orchestrator (queued tasks, due steps) and the idle check (idle, stuck, dead sandboxes)",
        Trigger::Schedule(Schedule { every_minutes: 1, locally_every_secs: 2, tick: schedule::SWEEP }),
        &[BatchGetItem, Query, PutItem, OrchestrationJobs, Thresholds],
    )
    // The next tick is due after a minute.
    .timeout_secs(50),
    function(
        "sandboxes-sweep-providers",
        "Delete orphaned sandboxes, and detect those that providers have lost",
        Trigger::Schedule(Schedule {
            every_minutes: 5,
            locally_every_secs: 3,
            tick: schedule::SWEEP_PROVIDERS,
        }),
        &[GetItem, BatchGetItem, Query, PutItem, UpdateItem, OrchestrationJobs, Providers],
    )
    // Provider lists are paged.
    .timeout_secs(120),
    function(
        "events-ingest",
        "Store a worker's events",
        Trigger::Http(Route {
            method: Method::POST,
            path: "/api/v1/sandboxes/{id}/events",
            scope: Scope::WriteEvents,
            endpoint: events::INGEST,
            max_body_bytes: MAX_REPORT_BYTES,
        }),
        &[Keys, GetItem, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "events-list",
        "List the events of a sandbox",
        http(Method::GET, "/api/v1/sandboxes/{id}/events", Scope::ReadSandbox, events::LIST),
        &[Keys, GetItem, Query],
    ),
    function(
        "events-body",
        "Get the full data of one event",
        http(Method::GET, "/api/v1/sandboxes/{id}/events/{seq}/body", Scope::ReadSandbox, events::BODY),
        &[Keys, GetItem, Query],
    ),
    function(
        "events-trajectory",
        "Get the events of a sandbox with heartbeats aggregated",
        http(Method::GET, "/api/v1/sandboxes/{id}/trajectory", Scope::ReadSandbox, events::TRAJECTORY),
        &[Keys, GetItem, Query],
    ),
    function(
        "events-broadcast",
        "Push stored events to sockets",
        Trigger::TableStream(Records::Broadcast),
        &[BatchGetItem, Query, DeleteItem, UpdateItem, Sockets],
    )
    // Up to 25 records, each of which may be pushed to thousands of sockets.
    .timeout_secs(120),
    function(
        "events-publish",
        "Publish lifecycle events of sandboxes, tasks and tickets to EventBridge",
        Trigger::TableStream(Records::Lifecycle),
        &[Bus],
    )
    .timeout_secs(30),
    function(
        "messages-send",
        "Send a message to a running agent",
        http(Method::POST, "/api/v1/sandboxes/{id}/messages", Scope::SendMessages, messages::SEND),
        &[
            Keys,
            GetItem,
            BatchGetItem,
            PutItem,
            UpdateItem,
            SendToMailboxes,
            CreateMailboxes,
            OrchestrationJobs,
        ],
    ),
    function(
        "messages-pull",
        "Pull messages, with long polling",
        http(Method::GET, "/api/v1/sandboxes/{id}/messages", Scope::PullMessages, messages::PULL),
        &[
            Keys,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            ReceiveFromMailboxes,
            DeleteFromMailboxes,
            CreateMailboxes,
        ],
    )
    // A long poll of up to 20 s and the calls around it. API Gateway times out after 30 s.
    .timeout_secs(28)
    // It mostly waits, and Lambda bills time and memory.
    .memory_mb(128)
    .reserved_concurrency("PullConcurrency"),
    function(
        "messages-ack",
        "Record a worker's receipts for messages",
        http(Method::POST, "/api/v1/sandboxes/{id}/messages/ack", Scope::PullMessages, messages::ACK),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, DeleteFromMailboxes],
    ),
    function(
        "messages-cancel",
        "Cancel a message that no worker has acknowledged",
        http(
            Method::POST,
            "/api/v1/sandboxes/{id}/messages/{message_id}/cancel",
            Scope::SendMessages,
            messages::CANCEL,
        ),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, DeleteFromMailboxes],
    ),
    function(
        "messages-resend",
        "Send an undeliverable message again",
        http(
            Method::POST,
            "/api/v1/sandboxes/{id}/messages/{message_id}/resend",
            Scope::SendMessages,
            messages::RESEND,
        ),
        &[
            Keys,
            GetItem,
            BatchGetItem,
            PutItem,
            UpdateItem,
            SendToMailboxes,
            CreateMailboxes,
            OrchestrationJobs,
        ],
    ),
    function(
        "messages-sweep",
        "Delete the queues of sandboxes that have ended",
        Trigger::Schedule(Schedule {
            every_minutes: 15,
            locally_every_secs: 60,
            tick: schedule::SWEEP_MAILBOXES,
        }),
        &[GetItem, Query, DeleteMailboxes, ListMailboxes],
    )
    // One call for each queue of a sandbox that the plane did not provision.
    .timeout_secs(120),
    function(
        "messages-history",
        "List messages and their delivery state, newest first",
        http(Method::GET, "/api/v1/sandboxes/{id}/messages/history", Scope::ReadSandbox, messages::HISTORY),
        &[Keys, GetItem, BatchGetItem, Query],
    ),
    function(
        "sessions-append",
        "Append to an agent's session transcript",
        http(
            Method::POST,
            "/api/v1/sandboxes/{id}/sessions/{session_id}/entries",
            Scope::WriteEvents,
            sessions::APPEND,
        ),
        &[Keys, BatchGetItem, Query, PutItem, UpdateItem],
    ),
    function(
        "sessions-read",
        "Read an agent's session transcript, to resume from it",
        http(
            Method::GET,
            "/api/v1/sandboxes/{id}/sessions/{session_id}/entries",
            Scope::ReadSandbox,
            sessions::READ,
        ),
        &[Keys, BatchGetItem, Query],
    ),
    function(
        "tickets-create",
        "Create a ticket and its first task",
        http(Method::POST, "/api/v1/tickets", Scope::ManageTasks, tickets::CREATE),
        &[Keys, GetItem, BatchGetItem, QueryIndexes, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "tickets-list",
        "List the tickets of an org, newest first",
        http(Method::GET, "/api/v1/tickets", Scope::ListTasks, tickets::LIST),
        &[Keys, QueryIndexes, BatchGetItem],
    ),
    function(
        "tickets-get",
        "Get one ticket",
        http(Method::GET, "/api/v1/tickets/{id}", Scope::ListTasks, tickets::GET),
        &[Keys, GetItem, BatchGetItem, Query],
    ),
    function(
        "tickets-events",
        "List the events of a ticket",
        http(Method::GET, "/api/v1/tickets/{id}/events", Scope::ListTasks, tickets::EVENTS),
        &[Keys, GetItem, Query],
    ),
    function(
        "tickets-transition",
        "Move a ticket to another status",
        http(Method::POST, "/api/v1/tickets/{id}/transition", Scope::ManageTasks, tickets::TRANSITION),
        &[Keys, GetItem, PutItem, UpdateItem],
    ),
    function(
        "tickets-approve",
        "Approve a ticket",
        http(Method::POST, "/api/v1/tickets/{id}/approve", Scope::ManageTasks, tickets::APPROVE),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tickets-reject",
        "Reject a ticket",
        http(Method::POST, "/api/v1/tickets/{id}/reject", Scope::ManageTasks, tickets::REJECT),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem],
    ),
    function(
        "tickets-merge",
        "Merge all finished branches of a ticket, one after the other",
        http(Method::POST, "/api/v1/tickets/{id}/merge", Scope::ManageTasks, tickets::MERGE),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "tasks-create",
        "Create a task",
        http(Method::POST, "/api/v1/tasks", Scope::ManageTasks, tasks::CREATE),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-list",
        "List the tasks of an org, a ticket or a sandbox",
        http(Method::GET, "/api/v1/tasks", Scope::ListTasks, tasks::LIST),
        &[Keys, GetItem, QueryIndexes, BatchGetItem, Query],
    ),
    function(
        "tasks-get",
        "Get one task",
        http(Method::GET, "/api/v1/tasks/{id}", Scope::ListTasks, tasks::GET),
        &[Keys, GetItem],
    ),
    function(
        "tasks-update",
        "Change a task",
        http(Method::PATCH, "/api/v1/tasks/{id}", Scope::ManageTasks, tasks::UPDATE),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-events",
        "List the events of a task",
        http(Method::GET, "/api/v1/tasks/{id}/events", Scope::ListTasks, tasks::EVENTS),
        &[Keys, GetItem, Query],
    ),
    function(
        "tasks-diff",
        "Compare the branch of a task with its base",
        http(Method::GET, "/api/v1/tasks/{id}/diff", Scope::ListTasks, branches::DIFF),
        &[Keys, GetItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "tasks-workspace",
        "Download the kept work of a task",
        http(Method::GET, "/api/v1/tasks/{id}/workspace", Scope::ListTasks, workspaces::READ),
        &[Keys, GetItem, Query],
    ),
    function(
        "tasks-workspace-files",
        "List the files of the kept work of a task",
        http(Method::GET, "/api/v1/tasks/{id}/workspace/files", Scope::ListTasks, workspaces::FILES),
        &[Keys, GetItem, Query],
    ),
    function(
        "tasks-pull-request",
        "Get the state of a task's pull request at its code host",
        http(Method::GET, "/api/v1/tasks/{id}/pull-request", Scope::ListTasks, branches::PULL_REQUEST),
        &[Keys, GetItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "tasks-open-pull-request",
        "Open the pull request of a task, or update it",
        http(
            Method::POST,
            "/api/v1/tasks/{id}/pull-request",
            Scope::ManageTasks,
            branches::OPEN_PULL_REQUEST,
        ),
        &[Keys, GetItem, PutItem, UpdateItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "tasks-merge",
        "Merge the pull request of a task",
        http(Method::POST, "/api/v1/tasks/{id}/merge", Scope::ManageTasks, branches::MERGE),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "tasks-request-feedback",
        "Let the agent of a task work on the feedback that is left to a person",
        http(
            Method::POST,
            "/api/v1/tasks/{id}/feedback-rounds",
            Scope::ManageTasks,
            branches::REQUEST_FEEDBACK,
        ),
        &[Keys, GetItem, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "webhooks-github",
        "Receive a webhook of GitHub",
        Trigger::Http(Route {
            method: Method::POST,
            path: "/api/v1/webhooks/github",
            scope: Scope::Webhook,
            endpoint: webhooks::GITHUB,
            max_body_bytes: MAX_WEBHOOK_BYTES,
        }),
        // `Providers` includes the variables with the secrets of webhooks.
        &[GetItem, PutItem, OrchestrationJobs, Providers],
    ),
    function(
        "tasks-dependencies",
        "List what a task depends on and what depends on it",
        http(Method::GET, "/api/v1/tasks/{id}/dependencies", Scope::ListTasks, tasks::DEPENDENCIES),
        &[Keys, GetItem, BatchGetItem, Query],
    ),
    function(
        "tasks-add-dependencies",
        "Add dependencies to a task",
        http(Method::POST, "/api/v1/tasks/{id}/dependencies", Scope::ManageTasks, tasks::ADD_DEPENDENCIES),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-replace-dependencies",
        "Replace the dependencies of a task",
        http(Method::PUT, "/api/v1/tasks/{id}/dependencies", Scope::ManageTasks, tasks::REPLACE_DEPENDENCIES),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-remove-dependency",
        "Remove a dependency from a task",
        http(
            Method::DELETE,
            "/api/v1/tasks/{id}/dependencies/{dependency_id}",
            Scope::ManageTasks,
            tasks::REMOVE_DEPENDENCY,
        ),
        &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-fail",
        "Mark the current attempt at a task as failed",
        http(Method::POST, "/api/v1/tasks/{id}/fail", Scope::ManageTasks, tasks::FAIL),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-cancel",
        "Cancel a task",
        http(Method::POST, "/api/v1/tasks/{id}/cancel", Scope::ManageTasks, tasks::CANCEL),
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-retry",
        "Retry a failed task",
        http(Method::POST, "/api/v1/tasks/{id}/retry", Scope::ManageTasks, tasks::RETRY),
        &[Keys, GetItem, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "tasks-set-timeout",
        "Set the time limit of an attempt",
        http(Method::POST, "/api/v1/tasks/{id}/set-timeout", Scope::ManageTasks, tasks::SET_TIMEOUT),
        &[Keys, GetItem, PutItem, UpdateItem, OrchestrationJobs],
    ),
    function(
        "tasks-of-sandbox",
        "Get the task of a sandbox",
        http(Method::GET, "/api/v1/sandboxes/{id}/task", Scope::ReadSandbox, tasks::OF_SANDBOX),
        &[Keys, GetItem],
    ),
    function(
        "tasks-complete",
        "Report a task's result from its worker",
        http(Method::POST, "/api/v1/sandboxes/{id}/task-complete", Scope::WriteEvents, tasks::COMPLETE),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "tasks-validate",
        "Review a task's result",
        http(Method::POST, "/api/v1/sandboxes/{id}/validation-result", Scope::ReviewResult, tasks::VALIDATE),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, DeleteItem, OrchestrationJobs],
    ),
    function(
        "branch-workflow-start",
        "Create the branch of a ticket's task",
        http(Method::POST, "/api/v1/branch-workflow/start", Scope::ManageTasks, branch_workflow::START),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "branch-workflow-finish",
        "Open the pull request of a ticket's task, or update it",
        http(Method::POST, "/api/v1/branch-workflow/finish", Scope::ManageTasks, branch_workflow::FINISH),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "branch-workflow-merge",
        "Merge the pull request of a ticket's task",
        http(Method::POST, "/api/v1/branch-workflow/merge", Scope::ManageTasks, branch_workflow::MERGE),
        &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "branch-workflow-status",
        "Compare the branch of a ticket's task with its base",
        http(Method::GET, "/api/v1/branch-workflow/status", Scope::ListTasks, branch_workflow::STATUS),
        &[Keys, GetItem, BatchGetItem, Query, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "repositories-list",
        "List the repositories that a ticket can name",
        http(Method::GET, "/api/v1/repositories", Scope::ManageTasks, repositories::LIST),
        &[Keys, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "repositories-branches",
        "List the branches of a repository",
        http(Method::GET, "/api/v1/repositories/branches", Scope::ManageTasks, repositories::BRANCHES),
        &[Keys, Providers],
    )
    .timeout_secs(CODE_HOST_SECS),
    function(
        "monitoring-status",
        "Get the state of the sandboxes of an org",
        http(Method::GET, "/api/v1/monitoring/status", Scope::ListSandboxes, monitoring::STATUS),
        &[Keys, Query, BatchGetItem, Thresholds],
    ),
    function(
        "monitoring-phase",
        "Get the phase of a sandbox",
        http(Method::GET, "/api/v1/sandboxes/{id}/phase-status", Scope::ReadSandbox, monitoring::PHASE),
        &[Keys, GetItem],
    ),
    function(
        "api-openapi",
        "Get the OpenAPI document of these routes",
        http(Method::GET, "/api/v1/openapi.json", Scope::Public, api::OPENAPI),
        &[],
    ),
    function(
        "api-reference",
        "Show the reference page of the API",
        http(Method::GET, "/api/v1/reference", Scope::Public, api::REFERENCE),
        &[],
    ),
    function(
        "sockets-connect",
        "Accept a socket",
        Trigger::SocketConnect,
        &[Keys, GetItem, PutItem, UpdateItem, SocketJobs],
    ),
    function(
        "sockets-frame",
        "Handle a frame of a socket",
        Trigger::SocketFrame,
        &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, Sockets],
    ),
    function(
        "sockets-disconnect",
        "Forget a closed socket",
        Trigger::SocketDisconnect,
        &[GetItem, DeleteItem, UpdateItem],
    ),
    function(
        "sockets-expire",
        "Close sockets that have not authenticated in time",
        Trigger::Jobs(Queue::SocketJobs),
        &[GetItem, Sockets],
    ),
    function(
        "platform-check",
        "Emit the health metric; an alarm fires when it is missing",
        Trigger::Schedule(Schedule { every_minutes: 1, locally_every_secs: 60, tick: schedule::CHECK }),
        &[BatchGetItem],
    ),
];
