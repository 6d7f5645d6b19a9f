//! Requests about tasks.

use super::{MAX_DEPENDENCIES, MAX_DESCRIPTION_BYTES, MAX_RETRIES, MAX_TIMEOUT_SECS, SANDBOX_TYPE};
use crate::bad_input::BadInput;
use crate::execution;
use crate::fields::{Fields, line, required};
use crate::query::{Parameter, Query};
use domain::attempt::MAX_ERROR_CHARS;
use domain::task::edits::Edit;
use domain::task::{self, Execution, Priority};
use domain::ticket::MAX_TITLE_CHARS;
use domain::{OrgId, ProjectId, TaskId, TicketId, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// `POST /api/v1/tasks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Create {
    /// Generated when absent. With an id, the request is idempotent.
    pub id: Option<TaskId>,
    /// Default: the org of the caller.
    pub org: Option<OrgId>,
    pub ticket: Option<TicketId>,
    /// Default: the project of the ticket.
    pub project: Option<ProjectId>,
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    pub phase: String,
    pub depends_on: Vec<TaskId>,
    pub deadline_at: Option<Timestamp>,
    pub timeout_secs: Option<u64>,
    pub max_retries: u32,
    pub validation: bool,
    pub execution: Execution,
}

impl Create {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        let id = body.parsed("task_id", TaskId::parse)?;
        let task_type = body.name("task_type")?.unwrap_or_else(|| "implementation".to_owned());
        if task_type == SANDBOX_TYPE {
            let rule = "must not be \"sandbox\": in lists it selects tasks that have a sandbox";
            return Err(BadInput::invalid("task_type", rule));
        }
        let depends_on = depends_on(&body)?.unwrap_or_default();
        if id.as_ref().is_some_and(|id| depends_on.contains(id)) {
            return Err(BadInput::invalid("depends_on", "must not contain the task itself"));
        }
        Ok(Self {
            id,
            org: body.parsed("org", OrgId::parse)?,
            ticket: body.parsed("ticket_id", TicketId::parse)?,
            project: body.parsed("project_id", ProjectId::parse)?,
            task_type,
            title: required("title", title(&body)?)?,
            description: description(&body)?.unwrap_or_default(),
            priority: priority(&body)?.unwrap_or_default(),
            phase: body.name("phase_id")?.unwrap_or_else(|| "PHASE_IMPLEMENTATION".to_owned()),
            depends_on,
            deadline_at: body.time("deadline_at")?,
            timeout_secs: timeout(&body)?,
            max_retries: max_retries(&body)?,
            validation: body.flag("validation")?.unwrap_or(false),
            execution: execution(&body)?,
        })
    }

    /// Hash of the request, to tell a retry from another task with the same id.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("our own structs serialize to JSON");
        Sha256::digest(text)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `PATCH /api/v1/tasks/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update(pub Edit);

impl Update {
    /// Rejects fields that cannot be changed by this request, and names the request that changes them.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        for name in body.names() {
            let reason = match name {
                "title" | "description" | "priority" | "deadline_at" => continue,
                "status" => "is changed with POST /tasks/{id}/cancel, /fail or /retry",
                "dependencies" | "depends_on" => "is changed with POST or PUT /tasks/{id}/dependencies",
                "timeout_seconds" => "is changed with POST /tasks/{id}/set-timeout",
                _ => "cannot be changed; title, description, priority and deadline_at can",
            };
            return Err(BadInput::invalid(name, reason));
        }
        if body.names().next().is_none() {
            return Err(BadInput::invalid(
                "body",
                "must contain title, description, priority or deadline_at",
            ));
        }
        let title = match title(&body)? {
            None if body.has("title") => return Err(BadInput::invalid("title", "must not be empty")),
            title => title,
        };
        Ok(Self(Edit {
            title,
            description: description(&body)?,
            priority: priority(&body)?,
            deadline_at: body.has("deadline_at").then(|| body.time("deadline_at")).transpose()?,
            timeout_secs: None,
        }))
    }
}

/// `POST` and `PUT /api/v1/tasks/{id}/dependencies`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependsOn(pub Vec<TaskId>);

impl DependsOn {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        required("depends_on", depends_on(&Fields::decode(body)?)?).map(Self)
    }
}

/// `POST /api/v1/tasks/{id}/fail` and `…/cancel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(pub Option<String>);

impl Reason {
    /// Clients of OmoiOS send the reason in the query.
    pub const PARAMETER: Parameter =
        Parameter::text("reason", "Used if the body has no `reason`.").up_to_chars(MAX_ERROR_CHARS);

    /// The body may be empty.
    pub fn decode(body: &[u8], query: &Query) -> Result<Self, BadInput> {
        let of_query = query.get(&Self::PARAMETER);
        let of_query = of_query.map(|text| line("reason", text, MAX_ERROR_CHARS)).transpose()?;
        let of_body = Fields::decode(body)?.line("reason", MAX_ERROR_CHARS)?;
        Ok(Self(of_body.or(of_query)))
    }
}

/// `POST /api/v1/tasks/{id}/set-timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTimeout(pub u64);

impl SetTimeout {
    /// Clients of OmoiOS send the timeout in the query.
    pub const PARAMETER: Parameter =
        Parameter::integer("timeout_seconds", 1, MAX_TIMEOUT_SECS, "Used if the request has no body.");

    pub fn decode(body: &[u8], query: &Query) -> Result<Self, BadInput> {
        let of_query = query.number(&Self::PARAMETER)?;
        let timeout = if body.is_empty() { of_query } else { timeout(&Fields::decode(body)?)? };
        required("timeout_seconds", timeout).map(Self)
    }
}

fn title(body: &Fields) -> Result<Option<String>, BadInput> {
    body.line("title", MAX_TITLE_CHARS)
}

/// Keeps white space.
fn description(body: &Fields) -> Result<Option<String>, BadInput> {
    let text = body.text("description")?;
    if text.is_some_and(|text| text.contains('\0')) {
        return Err(BadInput::invalid("description", "must not contain the character U+0000"));
    }
    match text {
        Some(long) if long.len() > MAX_DESCRIPTION_BYTES => {
            Err(BadInput::too_large("description", MAX_DESCRIPTION_BYTES))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

fn priority(body: &Fields) -> Result<Option<Priority>, BadInput> {
    let Some(name) = body.text("priority")? else { return Ok(None) };
    let known = Priority::ALL.into_iter().find(|priority| priority.as_str().eq_ignore_ascii_case(name));
    known.map(Some).ok_or_else(|| BadInput::invalid("priority", "must be one of LOW, MEDIUM, HIGH, CRITICAL"))
}

fn timeout(body: &Fields) -> Result<Option<u64>, BadInput> {
    body.integer("timeout_seconds", 1..=MAX_TIMEOUT_SECS)
}

/// In either form: `depends_on: […]` or `dependencies: {depends_on: […]}`.
fn depends_on(body: &Fields) -> Result<Option<Vec<TaskId>>, BadInput> {
    let inner = body.object("dependencies")?;
    let (found, field) = match (body.list("depends_on", TaskId::parse)?, inner) {
        (Some(_), Some(_)) => {
            return Err(BadInput::invalid("dependencies", "must not be used together with depends_on"));
        }
        (None, Some(inner)) => (inner.list("depends_on", TaskId::parse), "dependencies.depends_on"),
        (found, None) => (Ok(found), "depends_on"),
    };
    let found = found.map_err(|wrong| match wrong {
        BadInput::Invalid(wrong) => BadInput::Invalid(wrong.inside("dependencies")),
        other => other,
    })?;
    if found.as_ref().is_some_and(|found| found.len() > MAX_DEPENDENCIES) {
        return Err(BadInput::invalid(field, format!("must contain at most {MAX_DEPENDENCIES} tasks")));
    }
    Ok(found)
}

fn max_retries(body: &Fields) -> Result<u32, BadInput> {
    let retries = body.integer("max_retries", 0..=u64::from(MAX_RETRIES))?;
    Ok(retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(task::MAX_RETRIES))
}

fn execution(body: &Fields) -> Result<Execution, BadInput> {
    let (provider, continuous) = (body.name("provider")?, body.flag("continuous")?);
    Ok(Execution { provider, continuous, ..execution::decode(body)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_the_title_is_required() {
        let plain = Create::decode(br#"{"title":"  Do it "}"#).unwrap();
        assert_eq!((plain.title.as_str(), plain.task_type.as_str()), ("Do it", "implementation"));
        assert_eq!((plain.phase.as_str(), plain.priority), ("PHASE_IMPLEMENTATION", Priority::Medium));
        let decode = |body: Value| Create::decode(body.to_string().as_bytes()).unwrap();
        let flat = decode(json!({"title": "a", "depends_on": ["t-1", "t-2", "t-1"]}));
        let nested =
            decode(json!({"title": "a", "dependencies": {"depends_on": ["t-1", "t-2"]}, "unknown": 1}));
        assert_eq!((&flat.depends_on.len(), flat.digest()), (&2, nested.digest()));
        assert_ne!(flat.digest(), plain.digest());
    }

    #[test]
    fn the_invalid_field_is_named() {
        let many: Vec<String> = (0..41).map(|n| format!("t-{n}")).collect();
        for (body, field) in [
            (json!([]), "body"),
            (json!({}), "title"),
            (json!({"title": " "}), "title"),
            (json!({"title": 7}), "title"),
            (json!({"title": "a\u{7}"}), "title"),
            (json!({"title": "x".repeat(501)}), "title"),
            (json!({"title": "a", "description": ["x"]}), "description"),
            (json!({"title": "a", "description": "x".repeat(100_001)}), "description"),
            (json!({"title": "a", "task_id": "a b"}), "task_id"),
            (json!({"title": "a", "ticket_id": ""}), "ticket_id"),
            (json!({"title": "a", "project_id": "*"}), "project_id"),
            (json!({"title": "a", "org": 1}), "org"),
            (json!({"title": "a", "task_type": "a b"}), "task_type"),
            (json!({"title": "a", "task_type": "sandbox"}), "task_type"),
            (json!({"title": "a", "phase_id": ""}), "phase_id"),
            (json!({"title": "a", "priority": "urgent"}), "priority"),
            (json!({"title": "a", "depends_on": "t-1"}), "depends_on"),
            (json!({"title": "a", "depends_on": ["t-1", 2]}), "depends_on[1]"),
            (json!({"title": "a", "depends_on": ["a b"]}), "depends_on[0]"),
            (json!({"title": "a", "depends_on": many}), "depends_on"),
            (json!({"title": "a", "dependencies": []}), "dependencies"),
            (json!({"title": "a", "dependencies": {"depends_on": [1]}}), "dependencies.depends_on[0]"),
            (json!({"title": "a", "dependencies": {}, "depends_on": []}), "dependencies"),
            (json!({"title": "a", "task_id": "t-1", "depends_on": ["t-1"]}), "depends_on"),
            (json!({"title": "a", "deadline_at": "tomorrow"}), "deadline_at"),
            (json!({"title": "a", "timeout_seconds": 0}), "timeout_seconds"),
            (json!({"title": "a", "timeout_seconds": 604_801}), "timeout_seconds"),
            (json!({"title": "a", "max_retries": 11}), "max_retries"),
            (json!({"title": "a", "validation": "yes"}), "validation"),
            (json!({"title": "a", "memory_gb": 9}), "memory_gb"),
            (json!({"title": "a", "agent": "two\nlines"}), "agent"),
            (json!({"title": "a", "provider": "a/b"}), "provider"),
            (json!({"title": "a", "continuous": 1}), "continuous"),
        ] {
            match Create::decode(body.to_string().as_bytes()) {
                Err(BadInput::Invalid(wrong) | BadInput::TooLarge(wrong)) => {
                    assert_eq!(wrong.field, field, "{body}");
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_update_names_the_right_request_for_other_fields() {
        for (body, field, reason) in [
            (json!({"status": "failed"}), "status", "/tasks/{id}/cancel"),
            (json!({"depends_on": []}), "depends_on", "/tasks/{id}/dependencies"),
            (json!({"timeout_seconds": 5}), "timeout_seconds", "/tasks/{id}/set-timeout"),
            (json!({"title": "a", "colour": "red"}), "colour", "cannot be changed"),
            (json!({"title": null}), "title", "empty"),
            (json!({}), "body", "must contain"),
        ] {
            match Update::decode(body.to_string().as_bytes()) {
                Err(BadInput::Invalid(wrong)) => {
                    assert_eq!(wrong.field, field, "{body}");
                    assert!(wrong.reason.contains(reason), "{body}: {}", wrong.reason);
                }
                other => panic!("{body}: {other:?}"),
            }
        }
        let update = Update::decode(br#"{"deadline_at":null,"priority":"high"}"#).unwrap().0;
        assert_eq!((update.deadline_at, update.priority), (Some(None), Some(Priority::High)));
    }
}
