//! Events about the merge of all finished branches of a ticket, emitted by the plane.

use crate::message::Sender;
use crate::task::MergeMethod;
use crate::ticket::merge::BranchState;
use crate::{TaskId, TicketId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A caller wants all finished branches of the ticket merged, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMergeStarted {
    pub ticket_id: TicketId,
    /// The tasks whose branches are merged.
    pub task_ids: Vec<TaskId>,
    pub method: MergeMethod,
    /// Whether a conflict becomes a task for an agent.
    pub resolve_conflicts: bool,
    /// The caller.
    pub by: Sender,
}

/// The order of merging is known: fewest conflicts first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMergeOrdered {
    pub ticket_id: TicketId,
    pub order: Vec<OrderedBranch>,
    /// Whether conflicts stand for files that both sides have changed: the code host has no trial merge.
    pub estimated: bool,
    /// Why conflicts are not known, if the code host could not be asked. Then the order is that of the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderedBranch {
    pub task_id: TaskId,
    pub branch: String,
    /// Number of files that conflict with the base or another branch.
    pub conflicts: u32,
}

/// A branch was merged or skipped, or waits for something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMergeProgress {
    pub ticket_id: TicketId,
    pub task_id: TaskId,
    pub branch: String,
    pub state: BranchState,
    /// Why it waits, or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The commit of the base that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A branch contradicts the base. Nothing was merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MergeConflict {
    pub task_id: TaskId,
    pub ticket_id: TicketId,
    pub branch: String,
    pub base: String,
    pub files: Vec<ConflictInFile>,
    /// Whether the files are those that both sides have changed: the code host has no trial merge.
    pub estimated: bool,
    /// The task that an agent resolves it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictInFile {
    pub path: String,
    /// The contradicting lines with the marks of git, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<String>,
}

/// A branch of the ticket contradicts the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMergeConflict(pub MergeConflict);

/// The branch of the task contradicts the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskMergeConflict(pub MergeConflict);

/// Every branch is merged, conflicts, or was skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicketMergeEnded {
    pub ticket_id: TicketId,
    pub merged: Vec<TaskId>,
    pub conflicts: Vec<TaskId>,
    pub skipped: Vec<TaskId>,
}
