//! Bodies as whoever sends them writes them. What a reader makes of them stands with the decoders.

use domain::message::MessageType;
use domain::task::Priority;
use domain::ticket::{Status, WorkflowMode};
use domain::{MessageId, OrgId, ProjectId, TicketId};
use serde::Serialize;

/// `POST /api/v1/tickets`: needs a title, or a description to take it from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NewTicket {
    /// The sender's id; made up when absent. A repeat with the same id is one ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Its org; the caller's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// In a few words; the beginning of the description when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// In full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// A phase of its own to begin in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_id: Option<String>,
    /// The project that its tasks count towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// How it becomes tasks; `quick` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_mode: Option<WorkflowMode>,
    /// `claude`, `acp:<command>` or `scripted:<file>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// An address, or `owner/name` at GitHub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// `repository` in two parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_owner: Option<String>,
    /// `repository` in two parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_repo: Option<String>,
    /// The branch to begin at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Memory of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    /// Processors of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Disk of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// The image that the sandbox starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// How long its task may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How often its task is tried again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether somebody has to look at the result before it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
    /// Whether to look for a ticket that asks for the same; `true` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_duplicates: Option<bool>,
    /// From 0 to 1: from where on another counts as the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity_threshold: Option<f64>,
    /// Creates it although there is one like it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_create: Option<bool>,
}

/// `POST /api/v1/sandboxes/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewMessage {
    /// The text.
    pub content: String,
    /// What it is meant to do; `user_message` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<MessageType>,
    /// The sender's id; made up when absent. A repeat with the same id is one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// `POST /api/v1/tasks/{id}/fail` and `…/cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndTask {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/v1/tickets/{id}/transition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoveTicket {
    /// Where it should stand.
    pub to_status: Status,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the usual ways may be left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST /api/v1/tickets/{id}/reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectTicket {
    /// Why.
    pub rejection_reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BadInput;
    use crate::messages::Send;
    use crate::tasks::Reason;
    use crate::tickets::{CreateTicket, Transition, decode_rejection};
    use serde_json::{Value, json};

    /// Each field is one that the reader knows: it complains of it, by name, if it is a list of lists.
    fn check<T, R>(written: &T, decode: impl Fn(&[u8]) -> Result<R, BadInput>)
    where
        T: Serialize,
        R: std::fmt::Debug,
    {
        let written = serde_json::to_value(written).unwrap();
        decode(written.to_string().as_bytes()).unwrap();
        for field in written.as_object().unwrap().keys() {
            let mut wrong = written.clone();
            wrong[field] = json!([[]]);
            match decode(wrong.to_string().as_bytes()) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(&wrong.field, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    fn all_of_a_ticket() -> NewTicket {
        NewTicket {
            ticket_id: TicketId::parse("t-1").ok(),
            org: OrgId::parse("acme").ok(),
            title: Some("Mend it".into()),
            description: Some("Mend all of it".into()),
            priority: Some(Priority::High),
            phase_id: Some("PHASE_BACKLOG".into()),
            project_id: ProjectId::parse("p-1").ok(),
            workflow_mode: Some(WorkflowMode::Quick),
            agent: Some("claude".into()),
            model: Some("a-model".into()),
            repository: Some("acme/shop".into()),
            branch: Some("main".into()),
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
    fn every_field_that_is_written_is_read() {
        check(&all_of_a_ticket(), CreateTicket::decode);
        let parts = NewTicket {
            repository: None,
            github_owner: Some("acme".into()),
            github_repo: Some("shop".into()),
            ..all_of_a_ticket()
        };
        check(&parts, CreateTicket::decode);
        let message = NewMessage {
            content: "Use tabs".into(),
            message_type: Some(MessageType::Interrupt),
            message_id: MessageId::parse("m-1").ok(),
        };
        check(&message, Send::decode);
        check(&EndTask { reason: Some("no longer needed".into()) }, Reason::decode);
        let transition =
            MoveTicket { to_status: Status::Done, reason: Some("by hand".into()), force: Some(true) };
        check(&transition, Transition::decode);
        check(&RejectTicket { rejection_reason: "too vague".into() }, decode_rejection);
    }

    /// The reader's own fields, as its source names them: what it reads can be written.
    #[test]
    fn every_field_of_a_ticket_that_is_read_can_be_written() {
        let mut all = serde_json::to_value(all_of_a_ticket()).unwrap();
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
        let readers =
            ["text(\"", "line(\"", "flag(\"", "whole(\"", "word(\"", "fraction(\"", "amount(\"", "part(\""];
        let mut read = 0;
        for rest in readers.iter().flat_map(|reader| source.split(reader).skip(1)) {
            let field = rest.split('"').next().unwrap();
            assert!(all.get(field).is_some(), "NewTicket has no {field}");
            read += 1;
        }
        assert!(read >= 20, "only {read} fields were found in the reader's source");
    }
}
