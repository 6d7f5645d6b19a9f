//! Requests about the branches of tickets.

use super::{LINE, PART};
use crate::execution::MAX_NAME_CHARS;
use domain::task::MergeMethod;
use domain::{TaskId, TicketId};
use schemars::JsonSchema;
use serde::Serialize;

/// `POST /api/v1/branch-workflow/start`: requires `ticket_id` or `task_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartBranch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Required if several tasks of the ticket have a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Only the task with this branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub branch_name: Option<String>,
    /// Together with the name: must be the repository of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub repo_owner: Option<String>,
    /// Together with the owner: must be the repository of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub repo_name: Option<String>,
}

/// `POST /api/v1/branch-workflow/finish`: selects a task like a start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FinishBranch {
    #[serde(flatten)]
    pub selection: StartBranch,
}

/// `POST /api/v1/branch-workflow/merge`: selects a task like a start, or by the number of its pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeBranch {
    #[serde(flatten)]
    pub selection: StartBranch,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pr_number: Option<u64>,
    /// Default: `squash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_method: Option<MergeMethod>,
    /// Whether to delete the branch afterwards. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_branch_after: Option<bool>,
}

/// `POST /api/v1/tickets/{id}/merge`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeBranches {
    /// Default: `squash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MergeMethod>,
    /// Whether to delete each branch afterwards. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_branch: Option<bool>,
    /// Whether an agent gets a task for each conflict. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve_conflicts: Option<bool>,
}
