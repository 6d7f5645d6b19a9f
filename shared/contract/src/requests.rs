//! Request bodies for clients. The decoders of the plane are in the other modules.

use domain::message::MessageType;
use domain::task::Priority;
use domain::ticket::{Status, WorkflowMode};
use domain::{MessageId, OrgId, ProjectId, TicketId};
use serde::Serialize;

/// `POST /api/v1/tickets`: requires a title or a description.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NewTicket {
    /// Generated when absent. With an id, the request is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Default: the org of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// Default: the beginning of the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The initial phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_id: Option<String>,
    /// The project whose concurrency limit its tasks count towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Default: `quick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_mode: Option<WorkflowMode>,
    /// `claude`, `openhands`, `acp:<command>` or `scripted:<file>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A URL, or `owner/name` on GitHub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Together with the other part, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_owner: Option<String>,
    /// Together with the other part, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_repo: Option<String>,
    /// The branch to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// The snapshot that the sandbox is created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Timeout of an attempt at the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Number of automatic retries of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether the result must be reviewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
    /// Whether to check for duplicates. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_duplicates: Option<bool>,
    /// From 0 to 1: the similarity from which a ticket counts as a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity_threshold: Option<f64>,
    /// Creates the ticket even if it is a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_create: Option<bool>,
}

/// `POST /api/v1/sandboxes/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewMessage {
    pub content: String,
    /// Default: `user_message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<MessageType>,
    /// Generated when absent. With an id, the request is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// `POST /api/v1/tasks/{id}/fail` and `…/cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndTask {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/v1/tickets/{id}/transition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransitionTicket {
    pub to_status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether to allow any transition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST /api/v1/tickets/{id}/reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectTicket {
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

    /// The decoder knows each field: it rejects a wrong type and names the field.
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
                Err(BadInput::Invalid(wrong)) => assert_eq!(&wrong.field, field),
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
        check(&EndTask { reason: Some("no longer needed".into()) }, Reason::decode);
        let transition =
            TransitionTicket { to_status: Status::Done, reason: Some("by hand".into()), force: Some(true) };
        check(&transition, Transition::decode);
        check(&RejectTicket { rejection_reason: "too vague".into() }, decode_rejection);
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
