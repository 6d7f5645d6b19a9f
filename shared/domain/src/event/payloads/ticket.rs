//! Events about a ticket, emitted by the plane.

use crate::task::Priority;
use crate::ticket::{ApprovalStatus, Status, WorkflowMode};
use crate::{ProjectId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketCreated {
    pub ticket_id: TicketId,
    pub title: String,
    pub status: Status,
    pub phase_id: String,
    pub priority: Priority,
    pub project_id: Option<ProjectId>,
    pub workflow_mode: WorkflowMode,
    pub approval_status: ApprovalStatus,
    pub approval_deadline_at: Option<Timestamp>,
    /// Its first task, if it needs no approval.
    pub task_id: Option<TaskId>,
    pub created_by: Option<String>,
}

/// The status has changed: with the work of a task, or because a caller asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketTransitioned {
    pub ticket_id: TicketId,
    pub from_status: Status,
    pub to_status: Status,
    pub phase_id: String,
    /// The task that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The caller's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The caller skipped the rules of the status table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketApproved {
    pub ticket_id: TicketId,
    pub approved_by: Option<String>,
    /// Its first task.
    pub task_id: Option<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketRejected {
    pub ticket_id: TicketId,
    pub rejected_by: Option<String>,
    pub rejection_reason: String,
}

/// The ticket was not approved in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketTimedOut {
    pub ticket_id: TicketId,
    pub reason: Option<String>,
}

/// Work on the ticket has stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketBlocked {
    pub ticket_id: TicketId,
    pub reason: Option<String>,
    /// The task that blocks it.
    pub task_id: TaskId,
}

/// Work on the ticket can continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketUnblocked {
    pub ticket_id: TicketId,
    /// Why it was blocked.
    pub reason: Option<String>,
    /// The task that blocked it.
    pub task_id: TaskId,
}
