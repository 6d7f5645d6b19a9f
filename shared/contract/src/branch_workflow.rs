//! `/api/v1/branch-workflow`: the branches of a ticket under the names of OmoiOS.
//!
//! OmoiOS trusted the user, the owner and the repository in the body. Here a request selects a task, and the rest is that
//! of the task; `user_id`, `ticket_title`, `ticket_type` and `priority` are ignored.

use crate::bad_input::BadInput;
use crate::execution::MAX_NAME_CHARS;
use crate::fields::{self, Fields};
use crate::query::{Parameter, Query};
use crate::repository::is_name;
use crate::tickets::MAX_DESCRIPTION_BYTES;
use domain::task::MergeMethod;
use domain::{TaskId, TicketId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which task a request is about: the one task of the ticket to which all of these apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub ticket: Option<TicketId>,
    pub task: Option<TaskId>,
    pub branch: Option<String>,
    /// The number of a pull request.
    pub number: Option<u64>,
    /// `owner/name`. It must be the repository of the task.
    pub repository: Option<String>,
}

impl Selection {
    pub const TICKET: Parameter = Parameter::id("ticket_id", "The ticket. Required without `task_id`.");
    pub const TASK: Parameter =
        Parameter::id("task_id", "The task. Required if several tasks of the ticket have a branch.");
    pub const BRANCH: Parameter =
        Parameter::text("branch_name", "Only the task with this branch.").up_to_chars(MAX_NAME_CHARS);
    pub const OWNER: Parameter =
        Parameter::text("repo_owner", "Together with `repo_name`: must be the repository of the task.")
            .up_to_chars(MAX_NAME_CHARS);
    pub const NAME: Parameter =
        Parameter::text("repo_name", "Together with `repo_owner`: must be the repository of the task.")
            .up_to_chars(MAX_NAME_CHARS);
    pub const USER: Parameter =
        Parameter::text("user_id", "Ignored: the caller is who the token says. OmoiOS clients send it.");

    /// The parameters of `GET /api/v1/branch-workflow/status`.
    pub const PARAMETERS: &[Parameter] =
        &[Self::TICKET, Self::TASK, Self::BRANCH, Self::OWNER, Self::NAME, Self::USER];

    pub fn of_query(query: &Query) -> Result<Self, BadInput> {
        let text = |parameter: &Parameter| {
            let given = query.get(parameter).filter(|text| !text.trim().is_empty());
            given.map(|text| fields::line(parameter.name, text, MAX_NAME_CHARS)).transpose()
        };
        Self {
            ticket: query.parsed(&Self::TICKET, TicketId::parse)?,
            task: query.parsed(&Self::TASK, TaskId::parse)?,
            branch: text(&Self::BRANCH)?,
            number: None,
            repository: repository(text(&Self::OWNER)?, text(&Self::NAME)?)?,
        }
        .checked()
    }

    fn of_fields(fields: &Fields) -> Result<Self, BadInput> {
        let part = |field| fields.line(field, MAX_NAME_CHARS);
        Self {
            ticket: fields.text("ticket_id")?.map(TicketId::parse).transpose()?,
            task: fields.text("task_id")?.map(TaskId::parse).transpose()?,
            branch: fields.line("branch_name", MAX_NAME_CHARS)?,
            number: fields.integer("pr_number", 1..=u64::MAX)?,
            repository: repository(part("repo_owner")?, part("repo_name")?)?,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, BadInput> {
        match (&self.ticket, &self.task) {
            (None, None) => Err(BadInput::invalid("ticket_id", "is missing, and so is task_id")),
            _ => Ok(self),
        }
    }
}

fn repository(owner: Option<String>, name: Option<String>) -> Result<Option<String>, BadInput> {
    let part = |field, text: &String| match is_name(text) {
        true => Ok(()),
        false => Err(BadInput::invalid(field, "must be a part of owner/name")),
    };
    match (owner, name) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(BadInput::invalid("repo_name", "is missing")),
        (None, Some(_)) => Err(BadInput::invalid("repo_owner", "is missing")),
        (Some(owner), Some(name)) => {
            part("repo_owner", &owner)?;
            part("repo_name", &name)?;
            Ok(Some(format!("{owner}/{name}")))
        }
    }
}

/// `POST /api/v1/branch-workflow/start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start(pub Selection);

impl Start {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        Ok(Self(Selection::of_fields(&Fields::decode(body)?)?))
    }
}

/// `POST /api/v1/branch-workflow/finish`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish(pub Selection);

impl Finish {
    /// `pr_body` is refused: the plane writes the description from what is known about the work, and writes it again with
    /// each update.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        match fields.text("pr_body")? {
            Some(text) if text.len() > MAX_DESCRIPTION_BYTES => {
                Err(BadInput::too_large("pr_body", MAX_DESCRIPTION_BYTES))
            }
            Some(text) if !text.trim().is_empty() => {
                Err(BadInput::invalid("pr_body", "must be absent: the plane writes the description"))
            }
            _ => Ok(Self(Selection::of_fields(&fields)?)),
        }
    }
}

/// `POST /api/v1/branch-workflow/merge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub selection: Selection,
    pub method: MergeMethod,
    pub delete_branch: bool,
}

impl Merge {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        Ok(Self {
            selection: Selection::of_fields(&fields)?,
            method: fields.one_of("merge_method", &MergeMethod::NAMES)?.unwrap_or_default(),
            delete_branch: fields.flag("delete_branch_after")?.unwrap_or(true),
        })
    }
}

/// Response to a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BranchStarted")]
pub struct Started {
    /// Always `true`: a failure is a problem.
    pub success: bool,
    pub task_id: TaskId,
    pub branch_name: String,
    /// The commit of the base that the branch starts from.
    pub sha: String,
    /// Always `null`.
    pub error: Option<String>,
}

/// Response to a finish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BranchFinished")]
pub struct Finished {
    /// Whether the branch has a pull request. It has none if it has no commit that its base does not have.
    pub success: bool,
    pub task_id: TaskId,
    pub pr_number: Option<u64>,
    pub pr_url: Option<String>,
    /// Why there is no pull request.
    pub error: Option<String>,
}

/// Response to a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BranchMerged")]
pub struct Merged {
    /// Whether the branch is merged. Every failure other than a conflict is a problem.
    pub success: bool,
    pub task_id: TaskId,
    /// The commit of the base that contains the work.
    pub merge_sha: Option<String>,
    pub has_conflicts: bool,
    /// What the conflict is.
    pub error: Option<String>,
}

/// Response to `GET /api/v1/branch-workflow/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BranchStatus")]
pub struct BranchStatus {
    /// Always `true`: a failure is a problem.
    pub success: bool,
    pub task_id: TaskId,
    pub branch_name: String,
    /// Number of commits that the base does not have.
    pub ahead_by: u64,
    /// Number of commits of the base that the branch does not have.
    pub behind_by: u64,
    /// Whether the code host has found that it does not merge. `false` while there is no open pull request.
    pub has_conflicts: bool,
    /// Always `null`.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(decoded: Result<impl std::fmt::Debug, BadInput>) -> String {
        match decoded {
            Err(BadInput::Invalid(wrong)) => wrong.field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_of_omoios_select_a_task() {
        let body = br#"{"ticket_id":"k-1","ticket_title":"Add it","repo_owner":"acme","repo_name":"shop","user_id":"u-1",
            "ticket_type":"feature","priority":"critical"}"#;
        let Start(selection) = Start::decode(body).unwrap();
        assert_eq!(selection.ticket, TicketId::parse("k-1").ok());
        assert_eq!(selection.repository.as_deref(), Some("acme/shop"));
        let merge = Merge::decode(br#"{"ticket_id":"k-1","pr_number":7}"#).unwrap();
        assert_eq!((merge.selection.number, merge.method), (Some(7), MergeMethod::Squash));
        assert!(merge.delete_branch);
    }

    #[test]
    fn the_invalid_field_is_named() {
        for (body, wrong) in [
            (r#"{}"#, "ticket_id"),
            (r#"{"ticket_id":"/"}"#, "ticket_id"),
            (r#"{"task_id":7}"#, "task_id"),
            (r#"{"task_id":"t-1","repo_owner":"acme"}"#, "repo_name"),
            (r#"{"task_id":"t-1","repo_name":"shop"}"#, "repo_owner"),
            (r#"{"task_id":"t-1","repo_owner":"../x","repo_name":"shop"}"#, "repo_owner"),
            (r#"{"task_id":"t-1","branch_name":""}"#, "branch_name"),
        ] {
            assert_eq!(field(Start::decode(body.as_bytes())), wrong, "{body}");
        }
        for (body, wrong) in [
            (r#"{"ticket_id":"k-1","pr_number":0}"#, "pr_number"),
            (r#"{"ticket_id":"k-1","merge_method":"force"}"#, "merge_method"),
            (r#"{"ticket_id":"k-1","delete_branch_after":1}"#, "delete_branch_after"),
        ] {
            assert_eq!(field(Merge::decode(body.as_bytes())), wrong, "{body}");
        }
        assert_eq!(field(Finish::decode(br#"{"ticket_id":"k-1","pr_body":"Mine"}"#)), "pr_body");
        assert!(Finish::decode(br#"{"ticket_id":"k-1","pr_body":""}"#).is_ok());
        assert_eq!(field(Selection::of_query(&Query::parse("branch_name=a"))), "ticket_id");
    }
}
