//! What people ask of tasks.

use super::{MAX_DEPENDENCIES, MAX_DESCRIPTION_BYTES, MAX_RETRIES, MAX_TIMEOUT_SECS, SANDBOX_TYPE};
use crate::bad_input::BadInput;
use crate::body::{Body, required};
use domain::attempt::MAX_ERROR_CHARS;
use domain::resources::{self, Wanted};
use domain::task::edits::Edit;
use domain::task::{self, Execution, Priority};
use domain::ticket::MAX_TITLE_CHARS;
use domain::{OrgId, ProjectId, TaskId, TicketId, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// `POST /api/v1/tasks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Create {
    /// Its id; made up when absent. With it, the same request may be sent again.
    pub id: Option<TaskId>,
    /// Its org; the caller's own when absent.
    pub org: Option<OrgId>,
    /// What it is done for.
    pub ticket: Option<TicketId>,
    /// The project whose limit it counts towards; the ticket's when absent.
    pub project: Option<ProjectId>,
    /// What kind of work.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// In full.
    pub description: String,
    /// How much it matters.
    pub priority: Priority,
    /// Phase of its ticket.
    pub phase: String,
    /// What must be completed before it.
    pub depends_on: Vec<TaskId>,
    /// When it should be done.
    pub deadline_at: Option<Timestamp>,
    /// How long it may run.
    pub timeout_secs: Option<u64>,
    /// How often it is tried again by itself.
    pub max_retries: u32,
    /// Whether somebody has to look at the result before it counts.
    pub validation: bool,
    /// What its worker is told beside the text.
    pub execution: Execution,
}

impl Create {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Body::read(body)?;
        let id = body.parsed("task_id", TaskId::parse)?;
        let task_type = body.name("task_type")?.unwrap_or_else(|| "implementation".to_owned());
        if task_type == SANDBOX_TYPE {
            let rule = "must not be \"sandbox\": lists ask for tasks that have a sandbox by that word";
            return Err(BadInput::invalid("task_type", rule));
        }
        let depends_on = depends_on(&body)?.unwrap_or_default();
        if id.as_ref().is_some_and(|id| depends_on.contains(id)) {
            return Err(BadInput::invalid("depends_on", "must not hold the task itself"));
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
            max_retries: body.small("max_retries", 0..=MAX_RETRIES)?.unwrap_or(task::MAX_RETRIES),
            validation: body.flag("validation")?.unwrap_or(false),
            execution: execution(&body)?,
        })
    }

    /// A fingerprint of all of it, to tell a repeat from another task under the same id.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("our own structs serialise to JSON");
        Sha256::digest(text)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `PATCH /api/v1/tasks/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update(pub Edit);

impl Update {
    /// Reads a body. What cannot be changed this way is refused, with the way to do it.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Body::read(body)?;
        for name in body.names() {
            let instead = match name {
                "title" | "description" | "priority" | "deadline_at" => continue,
                "status" => "is changed with POST /tasks/{id}/cancel, /fail or /retry",
                "dependencies" | "depends_on" => "is changed with POST or PUT /tasks/{id}/dependencies",
                "timeout_seconds" => "is changed with POST /tasks/{id}/set-timeout",
                _ => "cannot be changed; title, description, priority and deadline_at can",
            };
            return Err(BadInput::invalid(name, instead));
        }
        if body.is_empty() {
            return Err(BadInput::invalid("body", "must hold title, description, priority or deadline_at"));
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
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        required("depends_on", depends_on(&Body::read(body)?)?).map(Self)
    }
}

/// `POST /api/v1/tasks/{id}/fail` and `…/cancel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(pub Option<String>);

impl Reason {
    /// Reads a body, which may be empty.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        Body::read(body)?.words("reason", MAX_ERROR_CHARS).map(Self)
    }
}

/// `POST /api/v1/tasks/{id}/set-timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTimeout(pub u64);

impl SetTimeout {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        required("timeout_seconds", timeout(&Body::read(body)?)?).map(Self)
    }
}

fn title(body: &Body) -> Result<Option<String>, BadInput> {
    body.words("title", MAX_TITLE_CHARS)
}

/// As it was written, with its white space.
fn description(body: &Body) -> Result<Option<String>, BadInput> {
    let text = body.text("description")?;
    if text.is_some_and(|text| text.contains('\0')) {
        return Err(BadInput::invalid("description", "must not hold the character 0"));
    }
    match text {
        Some(long) if long.len() > MAX_DESCRIPTION_BYTES => {
            Err(BadInput::too_large("description", MAX_DESCRIPTION_BYTES))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

fn priority(body: &Body) -> Result<Option<Priority>, BadInput> {
    let Some(word) = body.text("priority")? else { return Ok(None) };
    let known = Priority::ALL.into_iter().find(|priority| priority.as_str().eq_ignore_ascii_case(word));
    known.map(Some).ok_or_else(|| BadInput::invalid("priority", "must be one of LOW, MEDIUM, HIGH, CRITICAL"))
}

fn timeout(body: &Body) -> Result<Option<u64>, BadInput> {
    body.number("timeout_seconds", 1..=MAX_TIMEOUT_SECS)
}

/// In either spelling: `depends_on: […]` or `dependencies: {depends_on: […]}`.
fn depends_on(body: &Body) -> Result<Option<Vec<TaskId>>, BadInput> {
    let inner = body.object("dependencies")?;
    let (found, field) = match (body.list("depends_on", TaskId::parse)?, inner) {
        (Some(_), Some(_)) => {
            return Err(BadInput::invalid("dependencies", "must not stand beside depends_on"));
        }
        (None, Some(inner)) => (inner.list("depends_on", TaskId::parse), "dependencies.depends_on"),
        (found, None) => (Ok(found), "depends_on"),
    };
    let found = found.map_err(|wrong| match wrong {
        BadInput::Invalid(wrong) => BadInput::Invalid(wrong.inside("dependencies")),
        other => other,
    })?;
    if found.as_ref().is_some_and(|found| found.len() > MAX_DEPENDENCIES) {
        return Err(BadInput::invalid(field, format!("must hold at most {MAX_DEPENDENCIES} tasks")));
    }
    Ok(found)
}

/// Longest name of an agent, a model, a repository or a branch.
const MAX_WORD_CHARS: usize = 500;

fn execution(body: &Body) -> Result<Execution, BadInput> {
    let resources = body.object("resources")?;
    let (inner, place) = match &resources {
        Some(resources) => (resources, Some("resources")),
        None => (body, None),
    };
    let within = |wrong: BadInput| match (wrong, place) {
        (BadInput::Invalid(wrong), Some(place)) => BadInput::Invalid(wrong.inside(place)),
        (wrong, _) => wrong,
    };
    let size = |field: &str| inner.small(field, 1..=u32::MAX).map_err(within);
    let execution = Execution {
        agent: body.words("agent", MAX_WORD_CHARS)?,
        model: body.words("model", MAX_WORD_CHARS)?,
        repository: body.words("repository", MAX_WORD_CHARS)?,
        branch: body.words("branch", MAX_WORD_CHARS)?,
        provider: body.name("provider")?,
        memory_gb: size("memory_gb")?,
        cpu: size("cpu")?,
        disk_gb: size("disk_gb")?,
        snapshot: inner.words("snapshot", MAX_WORD_CHARS).map_err(within)?,
        continuous: body.flag("continuous")?,
    };
    resources::resolve(&[Wanted::from(&execution)]).map_err(|wrong| within(wrong.into()))?;
    Ok(execution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_task_needs_a_title_and_says_the_rest_if_it_likes() {
        let plain = Create::decode(br#"{"title":"  Do it "}"#).unwrap();
        assert_eq!((plain.title.as_str(), plain.task_type.as_str()), ("Do it", "implementation"));
        assert_eq!((plain.phase.as_str(), plain.priority), ("PHASE_IMPLEMENTATION", Priority::Medium));
        let either = |body: Value| Create::decode(body.to_string().as_bytes()).unwrap();
        let one = either(json!({"title": "a", "depends_on": ["t-1", "t-2", "t-1"]}));
        let other = either(json!({"title": "a", "dependencies": {"depends_on": ["t-1", "t-2"]}, "odd": 1}));
        assert_eq!((&one.depends_on.len(), one.digest()), (&2, other.digest()));
        assert_ne!(one.digest(), plain.digest());
    }

    #[test]
    fn every_wrong_field_is_named() {
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
            (json!({"title": "a", "resources": {"cpu": 0}}), "resources.cpu"),
            (json!({"title": "a", "resources": {"disk_gb": 11}}), "resources.disk_gb"),
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
    fn an_update_names_the_right_way_for_what_it_cannot_do() {
        for (body, field, words) in [
            (json!({"status": "failed"}), "status", "/tasks/{id}/cancel"),
            (json!({"depends_on": []}), "depends_on", "/tasks/{id}/dependencies"),
            (json!({"timeout_seconds": 5}), "timeout_seconds", "/tasks/{id}/set-timeout"),
            (json!({"title": "a", "colour": "red"}), "colour", "cannot be changed"),
            (json!({"title": null}), "title", "empty"),
            (json!({}), "body", "must hold"),
        ] {
            match Update::decode(body.to_string().as_bytes()) {
                Err(BadInput::Invalid(wrong)) => {
                    assert_eq!(wrong.field, field, "{body}");
                    assert!(wrong.reason.contains(words), "{body}: {}", wrong.reason);
                }
                other => panic!("{body}: {other:?}"),
            }
        }
        let update = Update::decode(br#"{"deadline_at":null,"priority":"high"}"#).unwrap().0;
        assert_eq!((update.deadline_at, update.priority), (Some(None), Some(Priority::High)));
    }
}
