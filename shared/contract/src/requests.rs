//! Request bodies for clients and documents. The decoders of the plane are in the other modules; tests compare the two.

mod branches;
mod tasks;
mod workers;

pub use branches::{FinishBranch, MergeBranch, MergeBranches, StartBranch};
pub use tasks::{
    ChangeTask, CompleteTask, EndTask, MergeTask, NewTask, ReviewTask, SetDependencies, SetTimeout,
};
pub use workers::{
    AppendEntries, KeepFile, KeepPiece, KeepWork, RegisterSandbox, SendBatch, SendEvent, SendEvents,
    SendReceipt, SendReceipts,
};

use crate::agent;
use crate::execution::{MAX_NAME_CHARS, MAX_REPOSITORY_CHARS};
use crate::tickets::{MAX_PHASE_CHARS, MAX_REASON_CHARS, MAX_RETRIES, MAX_TIMEOUT_SECS};
use domain::message::MAX_CONTENT_CHARS;
use domain::message::MessageType;
use domain::resources::{MAX_CPU, MAX_DISK_GB, MAX_MEMORY_GB};
use domain::task::{BranchType, Priority};
use domain::ticket::{MAX_TITLE_CHARS, Status, WorkflowMode};
use domain::{MessageId, OrgId, ProjectId, TicketId};
use schemars::JsonSchema;
use serde::Serialize;

/// One line of text that is not blank, as `Fields::line` accepts it.
const LINE: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^\u0000-\u0020\u007f-\u00a0\s][^\u0000-\u001f\u007f-\u009f]*$";
/// A name, as `Fields::name` accepts it.
const NAME: &str = "^[A-Za-z0-9._-]+$";
/// The owner or name of a repository.
const PART: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]*$";

/// `POST /api/v1/tickets`: requires a title or a description.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct NewTicket {
    /// Generated when absent. With an id, the request is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Default: the org of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// Default: the beginning of the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS), regex(pattern = LINE))]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The initial phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_PHASE_CHARS), regex(pattern = LINE))]
    pub phase_id: Option<String>,
    /// The project whose concurrency limit its tasks count towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Default: `quick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_mode: Option<WorkflowMode>,
    /// Name of an agent in the operator's list, such as `claude`. Default: the plane's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = agent::MAX_NAME_CHARS), regex(pattern = agent::NAME_PATTERN))]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub model: Option<String>,
    /// A URL, or `owner/name` on GitHub.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_REPOSITORY_CHARS), regex(pattern = LINE))]
    pub repository: Option<String>,
    /// Together with the other part, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub github_owner: Option<String>,
    /// Together with the other part, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub github_repo: Option<String>,
    /// The branch that its tasks work on. Default: a new one for each, which the plane names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub branch: Option<String>,
    /// The branch that the work starts from and goes back to. Default: that of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub base_branch: Option<String>,
    /// The first part of the name of a new branch. Default: what the title suggests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_type: Option<BranchType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MEMORY_GB))]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CPU))]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_DISK_GB))]
    pub disk_gb: Option<u32>,
    /// The snapshot that the sandbox is created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub snapshot: Option<String>,
    /// Timeout of an attempt at the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub timeout_seconds: Option<u64>,
    /// Number of automatic retries of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RETRIES))]
    pub max_retries: Option<u32>,
    /// Whether the result must be reviewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
    /// Whether to check for duplicates. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_duplicates: Option<bool>,
    /// From 0 to 1: the similarity from which a ticket counts as a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub similarity_threshold: Option<f64>,
    /// Creates the ticket even if it is a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_create: Option<bool>,
}

/// `POST /api/v1/sandboxes/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NewMessage {
    #[schemars(length(min = 1, max = MAX_CONTENT_CHARS))]
    pub content: String,
    /// Default: `user_message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<MessageType>,
    /// Generated when absent. With an id, the request is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// `POST /api/v1/tickets/{id}/transition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransitionTicket {
    pub to_status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_REASON_CHARS), regex(pattern = LINE))]
    pub reason: Option<String>,
    /// Whether to allow any transition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST /api/v1/tickets/{id}/reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RejectTicket {
    #[schemars(length(min = 1, max = MAX_REASON_CHARS), regex(pattern = LINE))]
    pub rejection_reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ReceiptIn, Send};
    use crate::query::Query;
    use crate::sandboxes::Register;
    use crate::tasks::{self, Reason};
    use crate::tickets::{CreateTicket, MergeTicket, Transition, decode_rejection};
    use crate::{BadInput, branch_workflow};
    use domain::kept::{Format, LeftOut};
    use domain::message::State;
    use domain::task::MergeMethod;
    use domain::{EventId, EventType, JsonObject, SandboxId, SessionId, Source, TaskId, Timestamp};
    use serde_json::{Value, json};

    /// The decoder knows each field: it rejects a wrong type and names the field, or the element if the field is a list.
    fn check<T, R>(request: &T, decode: impl Fn(&[u8]) -> Result<R, BadInput>)
    where
        T: Serialize,
        R: std::fmt::Debug,
    {
        let request = serde_json::to_value(request).unwrap();
        decode(request.to_string().as_bytes()).unwrap();
        for field in request.as_object().unwrap().keys() {
            let mut invalid = request.clone();
            invalid[field] = json!([[]]);
            match decode(invalid.to_string().as_bytes()) {
                Err(BadInput::Invalid(wrong)) => {
                    assert_eq!(wrong.field.strip_suffix("[0]").unwrap_or(&wrong.field), field);
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    fn full_ticket() -> NewTicket {
        NewTicket {
            ticket_id: TicketId::parse("t-1").ok(),
            org: OrgId::parse("acme").ok(),
            title: Some("Fix it".into()),
            description: Some("Fix all of it".into()),
            priority: Some(Priority::High),
            phase_id: Some("PHASE_BACKLOG".into()),
            project_id: ProjectId::parse("p-1").ok(),
            workflow_mode: Some(WorkflowMode::Quick),
            agent: Some("claude".into()),
            model: Some("a-model".into()),
            repository: Some("acme/shop".into()),
            branch: Some("main".into()),
            base_branch: Some("develop".into()),
            branch_type: Some(BranchType::Fix),
            memory_gb: Some(4),
            cpu: Some(2),
            disk_gb: Some(8),
            snapshot: Some("an-image".into()),
            timeout_seconds: Some(60),
            max_retries: Some(1),
            validation: Some(true),
            check_duplicates: Some(true),
            similarity_threshold: Some(0.5),
            force_create: Some(false),
            ..NewTicket::default()
        }
    }

    #[test]
    fn every_field_of_a_request_is_decoded() {
        check(&full_ticket(), CreateTicket::decode);
        let parts = NewTicket {
            repository: None,
            github_owner: Some("acme".into()),
            github_repo: Some("shop".into()),
            ..full_ticket()
        };
        check(&parts, CreateTicket::decode);
        let message = NewMessage {
            content: "Use tabs".into(),
            message_type: Some(MessageType::Interrupt),
            message_id: MessageId::parse("m-1").ok(),
        };
        check(&message, Send::decode);
        check_workers();
        check_tasks();
        let reason = |body: &[u8]| Reason::decode(body, &Query::default());
        check(&EndTask { reason: Some("no longer needed".into()) }, reason);
        let transition =
            TransitionTicket { to_status: Status::Done, reason: Some("by hand".into()), force: Some(true) };
        check(&transition, Transition::decode);
        check_branches();
        check(&RejectTicket { rejection_reason: "too vague".into() }, decode_rejection);
    }

    fn check_workers() {
        let register = RegisterSandbox {
            sandbox_id: SandboxId::parse("s-1").ok(),
            org: OrgId::parse("acme").ok(),
            name: Some("demo".into()),
            resumes: SessionId::parse("c-1").ok(),
        };
        check(&register, Register::decode);
        let ingest =
            |body: &[u8]| crate::ingest::decode(body, &Source::ALL, || EventId::parse("e-1").unwrap());
        let event = SendEvent {
            event_type: EventType::parse("agent.message").unwrap(),
            event_data: Some(JsonObject::empty()),
            source: Some(Source::Agent),
            event_id: EventId::parse("e-1").ok(),
            emitted_at: Some(Timestamp::from_secs(0)),
        };
        check(&SendEvents::Single(event.clone()), ingest);
        check(&SendEvents::Batch(SendBatch { epoch: 1, batch: 1, events: vec![event] }), ingest);
        let receipt = SendReceipt {
            message_id: MessageId::parse("m-1").unwrap(),
            state: State::Started,
            detail: Some("now".into()),
        };
        let within = |body: &[u8]| {
            let receipts = format!(r#"{{"receipts":[{}]}}"#, std::str::from_utf8(body).unwrap());
            ReceiptIn::decode(receipts.as_bytes()).map_err(|wrong| match wrong {
                BadInput::Invalid(wrong) => BadInput::invalid(wrong.field.replace("receipts[0].", ""), ""),
                other => other,
            })
        };
        check(&receipt, within);
        check(&SendReceipts { receipts: vec![receipt] }, ReceiptIn::decode);
        let entries = AppendEntries { first: 1, entries: vec![JsonObject::empty()] };
        check(&entries, crate::sessions::Entries::decode);
        let piece = KeepPiece { sha256: "0f".repeat(32), piece: 1, data: "YQ==".into() };
        check(&piece, crate::workspaces::Piece::decode);
        let file = KeepFile { format: Format::Archive, size_bytes: 1, sha256: "0f".repeat(32) };
        let left_out = LeftOut { path: "target".into(), reason: "too large".into() };
        let kept = KeepWork { files: vec![file], left_out: Some(vec![left_out]), left_out_count: Some(1) };
        check(&kept, crate::workspaces::Keep::decode);
    }

    fn check_branches() {
        let select = StartBranch {
            ticket_id: TicketId::parse("k-1").ok(),
            task_id: TaskId::parse("t-1").ok(),
            branch_name: Some("fix/it".into()),
            repo_owner: Some("acme".into()),
            repo_name: Some("shop".into()),
        };
        check(&select, branch_workflow::Start::decode);
        let finish = FinishBranch { selection: select.clone() };
        check(&finish, branch_workflow::Finish::decode);
        let merge = MergeBranch {
            selection: select,
            pr_number: Some(7),
            merge_method: Some(MergeMethod::Rebase),
            delete_branch_after: Some(false),
        };
        check(&merge, branch_workflow::Merge::decode);
        let all = MergeBranches {
            method: Some(MergeMethod::Merge),
            delete_branch: Some(false),
            resolve_conflicts: Some(true),
        };
        check(&all, MergeTicket::decode);
    }

    fn check_tasks() {
        let id = || TaskId::parse("t-1").unwrap();
        let task = NewTask {
            title: "Fix it".into(),
            description: Some("All of it".into()),
            task_id: Some(TaskId::parse("t-2").unwrap()),
            org: OrgId::parse("acme").ok(),
            ticket_id: TicketId::parse("t-1").ok(),
            project_id: ProjectId::parse("p-1").ok(),
            task_type: Some("fix".into()),
            priority: Some(Priority::Low),
            phase_id: Some("PHASE_TESTING".into()),
            depends_on: Some(vec![id()]),
            deadline_at: Some(Timestamp::from_secs(0)),
            timeout_seconds: Some(60),
            max_retries: Some(1),
            validation: Some(true),
            agent: Some("claude".into()),
            model: Some("a-model".into()),
            repository: Some("acme/shop".into()),
            branch: Some("main".into()),
            base_branch: Some("develop".into()),
            branch_type: Some(BranchType::Fix),
            memory_gb: Some(4),
            cpu: Some(2),
            disk_gb: Some(8),
            snapshot: Some("an-image".into()),
            provider: Some("process".into()),
            continuous: Some(true),
            ..NewTask::default()
        };
        check(&task, tasks::Create::decode);
        let omoios = NewTask {
            title: "Fix it".into(),
            dependencies: Some(SetDependencies { depends_on: vec![id()] }),
            github_owner: Some("acme".into()),
            github_repo: Some("shop".into()),
            ..NewTask::default()
        };
        check(&omoios, tasks::Create::decode);
        let change = ChangeTask {
            title: Some("Fix it".into()),
            description: Some(String::new()),
            priority: Some(Priority::High),
            deadline_at: Some(Timestamp::from_secs(0)),
        };
        check(&change, tasks::Update::decode);
        check(&SetDependencies { depends_on: vec![id()] }, tasks::DependsOn::decode);
        let timeout = |body: &[u8]| tasks::SetTimeout::decode(body, &Query::default());
        check(&SetTimeout { timeout_seconds: 60 }, timeout);
        let completed = CompleteTask {
            task_id: id(),
            success: Some(false),
            result: Some(JsonObject::empty()),
            error_message: Some("no disk".into()),
        };
        check(&completed, tasks::Complete::decode);
        let review = ReviewTask {
            task_id: id(),
            passed: false,
            feedback: "no tests".into(),
            recommendations: Some(vec!["write some".into()]),
            evidence: Some(JsonObject::empty()),
        };
        check(&review, tasks::Review::decode);
    }

    /// Finds the fields in the source of the decoder.
    #[test]
    fn every_field_of_the_decoder_is_in_the_request() {
        let mut all = serde_json::to_value(full_ticket()).unwrap();
        let parts = NewTicket {
            github_owner: Some("acme".into()),
            github_repo: Some("shop".into()),
            ..NewTicket::default()
        };
        let Value::Object(parts) = serde_json::to_value(parts).unwrap() else { unreachable!() };
        all.as_object_mut().unwrap().extend(parts);
        let creating = include_str!("tickets.rs").split("/// `POST /api/v1/tickets/{id}/transition`").next();
        let execution = include_str!("execution.rs").split("#[cfg(test)]").next();
        let source = [creating, execution].map(Option::unwrap).concat();
        let decoders = [
            "text(\"",
            "line(\"",
            "flag(\"",
            "integer(\"",
            "one_of(\"",
            "fraction(\"",
            "amount(\"",
            "part(\"",
        ];
        let mut found = 0;
        for rest in decoders.iter().flat_map(|decoder| source.split(decoder).skip(1)) {
            let field = rest.split('"').next().unwrap();
            assert!(all.get(field).is_some(), "NewTicket has no {field}");
            found += 1;
        }
        assert!(found >= 20, "only {found} fields were found in the source of the decoder");
    }
}
