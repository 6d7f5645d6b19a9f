//! Events about the feedback on the pull request of a task, emitted by the plane.

use crate::feedback::{Answer, Remark};
use crate::message::Sender;
use crate::{MessageId, SandboxId, TaskId, TicketId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// There is feedback on the pull request, and an agent works on it: in another attempt, or after a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFeedbackReceived {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
    /// Newest commit of the branch.
    pub commit: String,
    /// Number of the round, from 1.
    pub round: u32,
    /// What is new.
    pub remarks: Vec<Remark>,
    /// The sandbox whose agent gets a message. Absent if there is another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// The agent has worked on the feedback, and its answers are posted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFeedbackAnswered {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
    /// Newest commit of the branch.
    pub commit: String,
    /// Number of the round, from 1.
    pub round: u32,
    /// Whether the branch has commits of this round.
    pub changed: bool,
    /// Empty if the agent gave none: then one comment names the commit.
    pub answers: Vec<Answer>,
}

/// There is feedback after the last round: a person decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFeedbackLeft {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
    /// Newest commit of the branch.
    pub commit: String,
    /// How many rounds there were.
    pub rounds: u32,
    /// What is new.
    pub remarks: Vec<Remark>,
}

/// A caller has granted further rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFeedbackRequested {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Number of the pull request.
    pub number: u64,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The pull request was closed at the code host without a merge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPullRequestClosed {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
}
