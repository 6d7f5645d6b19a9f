//! An attempt at a task: its sandbox, how far provisioning has come, and the outcome.
//!
//! Every attempt has its own sandbox, with its own id and token. So a late report comes from a sandbox that is no longer
//! the task's, and changes nothing.

use crate::event::catalogue::{self, field_names};
use crate::event::payloads::{
    self, AgentCompleted, AgentFailed, RunReport, RunState, SandboxAttempt, SandboxStage, TokenCounts,
};
use crate::event::{EventType, LifecycleEvent};
use crate::large_fields::omit_large_fields;
use crate::retry::Class;
use crate::{JsonObject, SandboxId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a sandbox is for. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    pub attempt: u32,
    pub provider: String,
}

impl Assignment {
    /// The attempt in events of its sandbox.
    pub fn of(&self, sandbox: &SandboxId) -> SandboxAttempt {
        SandboxAttempt {
            sandbox_id: sandbox.clone(),
            task_id: Some(self.task.clone()),
            ticket_id: self.ticket.clone(),
            attempt: Some(self.attempt),
            provider: Some(self.provider.clone()),
        }
    }
}

/// Identifies an attempt: a report about it counts only if both fields match the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    pub sandbox: SandboxId,
}

/// State of a sandbox at its provider, from the claim of its task to the confirmed deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioning {
    /// In progress, or completed last.
    pub stage: Stage,
    /// When the stage began.
    pub since: Timestamp,
    /// How often this stage has failed, or how often its deletion was checked.
    #[serde(default)]
    pub attempts: u32,
    /// No retry before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// A process works on the stage until then; the lease of a process that dies expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// The provider's circuit breaker was open until then: that time does not count towards the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// The provider's id for the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// When the worker first reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// When the worker reported its shutdown, or the plane ended the sandbox of a worker that is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_exited_at: Option<Timestamp>,
    /// When the provider confirmed the deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Timestamp>,
}

impl Provisioning {
    /// A sandbox that exists only in the table.
    pub fn recorded(now: Timestamp) -> Self {
        Self {
            stage: Stage::Recorded,
            since: now,
            attempts: 0,
            retry_at: None,
            lease_until: None,
            held_until: None,
            provider_id: None,
            running_since: None,
            worker_exited_at: None,
            released_at: None,
        }
    }

    /// A copy at the beginning of another stage.
    #[must_use]
    pub fn at(&self, stage: Stage, now: Timestamp) -> Self {
        Self { stage, since: now, attempts: 0, retry_at: None, lease_until: None, ..self.clone() }
    }
}

/// The stages of provisioning. Each can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProvisioningStage")]
pub enum Stage {
    /// The sandbox is stored in the table.
    Recorded,
    /// Reserved for preparations such as a branch; does nothing today.
    Preparing,
    /// The provider creates the sandbox.
    Creating,
    /// The worker binary is uploaded.
    Uploading,
    /// The worker is being started.
    Starting,
    /// Provisioning is complete; the worker is expected to report.
    Started,
}

impl Stage {
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Recorded => Some(Self::Preparing),
            Self::Preparing => Some(Self::Creating),
            Self::Creating => Some(Self::Uploading),
            Self::Uploading => Some(Self::Starting),
            Self::Starting => Some(Self::Started),
            Self::Started => None,
        }
    }

    /// Whether the stage calls the provider. Before the first such stage, the provider has nothing to delete.
    pub fn needs_provider(self) -> bool {
        self >= Self::Creating
    }

    /// The event that is emitted when the stage begins.
    pub fn event(self, data: SandboxStage) -> LifecycleEvent {
        match self {
            Self::Recorded => LifecycleEvent::new(&payloads::SandboxPending(data)),
            Self::Preparing => LifecycleEvent::new(&payloads::SandboxPreparing(data)),
            Self::Creating => LifecycleEvent::new(&payloads::SandboxCreating(data)),
            Self::Uploading => LifecycleEvent::new(&payloads::SandboxUploading(data)),
            Self::Starting => LifecycleEvent::new(&payloads::SandboxStarting(data)),
            Self::Started => LifecycleEvent::new(&payloads::SandboxSpawned(data)),
        }
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent reported success.
    Completed {
        #[serde(deserialize_with = "from_buffered")]
        result: JsonObject,
        at: Timestamp,
    },
    Failed {
        /// A text for people.
        error: String,
        /// Whether a retry may succeed.
        class: Class,
        at: Timestamp,
    },
    Cancelled {
        /// A text for people.
        reason: String,
        at: Timestamp,
    },
}

impl Outcome {
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Completed { at, .. } | Self::Failed { at, .. } | Self::Cancelled { at, .. } => *at,
        }
    }
}

/// An outcome is deserialized from a buffer (it is tagged, inside a struct with a flattened map), which raw JSON values do
/// not support: <https://github.com/serde-rs/json/issues/497>.
fn from_buffered<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<JsonObject, D::Error> {
    let fields = serde_json::Map::deserialize(deserializer)?;
    Ok(JsonObject::of(&fields))
}

/// The outcome that an event of a worker reports, if it is a final report. For events of a continuous run see
/// [`crate::continuous`].
pub fn reported_outcome(event_type: &EventType, data: &JsonObject, now: Timestamp) -> Option<Outcome> {
    if event_type.has::<AgentCompleted>() {
        return Some(Outcome::Completed { result: result_of(data, Vec::new()), at: now });
    }
    if event_type.has::<AgentFailed>() {
        let AgentFailed { error, stop_reason, .. } = catalogue::read(data).unwrap_or_default();
        let error = error.or(Some(stop_reason).filter(|reason| !reason.is_empty()));
        let error = error.unwrap_or_else(|| "the agent failed without an error message".to_owned());
        return Some(Outcome::failed(&error, now));
    }
    None
}

impl Outcome {
    /// A failure, classified by its error text.
    pub fn failed(error: &str, now: Timestamp) -> Self {
        let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
        let class = crate::retry::classify(&error);
        Self::Failed { error, class, at: now }
    }
}

/// Maximum length of an error that is stored with a task; the sandbox's log has the full text.
pub const MAX_ERROR_CHARS: usize = 2_000;
/// Maximum length of a text in a result that is stored with a task.
pub const MAX_RESULT_CHARS: usize = 4_000;
/// Maximum size of a result that is stored with a task, as JSON. A DynamoDB item holds at most 400 KB
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>), which a task shares with its
/// description and feedback, and a sandbox with its counters.
pub const MAX_RESULT_BYTES: usize = 32 * 1024;

/// Fields of an agent's final report that are stored with the task; the sandbox's log has the full report.
pub(crate) const RESULT_FIELDS: [&str; 19] = field_names!(
    AgentCompleted: success;
    RunReport: turns, cost_usd;
    TokenCounts: input_tokens, output_tokens;
    RunReport: session_id;
    AgentCompleted: stop_reason;
    RunReport: branch_name, commit, final_output, output, artifacts;
    RunState: code_pushed, pr_created, pr_url, pr_number, tests_passed, files_changed, validation_passed;
);

/// Lists the fields that were shortened or omitted because of their size.
pub const TRUNCATED: &str = "truncated";

/// The part of a final report that is stored with the task. `truncated` names fields of the report that were truncated
/// before.
pub fn result_of(data: &JsonObject, truncated: Vec<String>) -> JsonObject {
    summary_of(data, Summary { max_chars: MAX_RESULT_CHARS, max_bytes: MAX_RESULT_BYTES }, truncated)
}

/// Limits of a summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// Maximum length of a text.
    pub(crate) max_chars: usize,
    /// Maximum size as JSON. The names of all fields must fit.
    pub(crate) max_bytes: usize,
}

/// The [`RESULT_FIELDS`] of a report. Long texts are truncated; then whole fields are omitted, the largest first, until the
/// rest fits. The field `truncated` names those that were truncated or omitted, now or before.
pub(crate) fn summary_of(data: &JsonObject, limits: Summary, mut truncated: Vec<String>) -> JsonObject {
    let mut kept = serde_json::Map::new();
    for (name, raw) in data.fields() {
        if !RESULT_FIELDS.contains(&name.as_str()) {
            continue;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else { continue };
        if let Value::String(text) = &mut value
            && let Some((end, _)) = text.char_indices().nth(limits.max_chars)
        {
            text.truncate(end);
            truncated.push(name.clone());
        }
        kept.insert(name, value);
    }
    let all_named = JsonObject::of(&serde_json::json!({TRUNCATED: RESULT_FIELDS})).text().len();
    let abridged = omit_large_fields(&JsonObject::of(&kept), limits.max_bytes - all_named);
    truncated.retain(|name| !abridged.omitted.contains(name));
    truncated.extend(abridged.omitted);
    if truncated.is_empty() {
        return abridged.data;
    }
    let named = serde_json::value::to_raw_value(&truncated).expect("a list of names serializes");
    abridged.data.with_fields(&[(TRUNCATED, Some(named))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn each_stage_has_a_successor_and_an_event() {
        let mut stage = Stage::Recorded;
        let attempt = SandboxAttempt {
            sandbox_id: SandboxId::parse("s-1").unwrap(),
            task_id: None,
            ticket_id: None,
            attempt: None,
            provider: None,
        };
        let event = |stage: Stage| stage.event(SandboxStage::new(attempt.clone())).event_type.to_string();
        let mut events = vec![event(stage)];
        while let Some(next) = stage.next() {
            assert!(next > stage);
            stage = next;
            events.push(event(stage));
        }
        assert_eq!(
            events,
            ["pending", "preparing", "creating", "uploading", "starting", "spawned"]
                .map(|name| format!("sandbox.{name}"))
        );
    }

    #[test]
    fn every_outcome_survives_a_round_trip_through_the_store() {
        let at = Timestamp::from_secs(1);
        let result =
            JsonObject::of(&json!({"turns": 3, "output": "done", "files_changed": [1, {"a": null}]}));
        let outcomes = [
            Outcome::Completed { result, at },
            Outcome::failed("timed out", at),
            Outcome::Cancelled { reason: "enough".into(), at },
        ];
        for outcome in outcomes {
            let activity = crate::sandbox::Activity { outcome: Some(outcome), ..Default::default() };
            let written = serde_json::to_string(&activity).unwrap();
            assert_eq!(
                serde_json::from_str::<crate::sandbox::Activity>(&written).unwrap(),
                activity,
                "{written}"
            );
        }
    }

    #[test]
    fn only_a_final_report_has_an_outcome() {
        let now = Timestamp::from_secs(1);
        let report = |name: &str, data: Value| {
            reported_outcome(&EventType::parse(name).unwrap(), &JsonObject::of(&data), now)
        };
        let completed = report(
            "SANDBOX_AGENT_COMPLETED",
            json!({"turns": 3, "custom": 1, "final_output": "x".repeat(9_000)}),
        );
        let Some(Outcome::Completed { result, .. }) = completed else { panic!("{completed:?}") };
        assert_eq!(result.string("final_output").map(|text| text.len()), Some(MAX_RESULT_CHARS));
        assert!(result.text().ends_with(r#","truncated":["final_output"]}"#), "{}", result.text());
        assert!(!result.text().contains("custom"));
        let failed = report("agent.failed", json!({"error": "API rate limit exceeded"}));
        assert!(matches!(failed, Some(Outcome::Failed { class: Class::Transient, .. })), "{failed:?}");
        for other in ["agent.error", "agent.turn_completed", "continuous.completed", "iteration.failed"] {
            assert!(report(other, json!({})).is_none(), "{other}");
        }
    }

    #[test]
    fn a_result_names_its_truncated_fields() {
        let artifacts = json!([{"type": "code_changes", "path": "https://example.org/pr/7", "content": {"has_tests": true}}]);
        let small = json!({"turns": 3, "artifacts": artifacts, "output": "done"});
        let kept: Value =
            serde_json::from_str(result_of(&JsonObject::of(&small), Vec::new()).text()).unwrap();
        assert_eq!(kept, small, "no field was too large");
        let large = json!({
            "turns": 3, "artifacts": vec!["x".repeat(100); 400], "files_changed": vec!["a.rs"; 10],
            "output": "y".repeat(5_000), "truncated": "set by the worker",
        });
        let kept: Value =
            serde_json::from_str(result_of(&JsonObject::of(&large), Vec::new()).text()).unwrap();
        let expected = json!({
            "turns": 3, "files_changed": vec!["a.rs"; 10], "output": "y".repeat(MAX_RESULT_CHARS),
            "truncated": ["output", "artifacts"],
        });
        assert_eq!(kept, expected);
    }

    proptest! {
        /// Includes characters of four bytes and characters that JSON escapes with six.
        #[test]
        fn a_result_never_exceeds_its_maximum_size(
            fields in proptest::collection::vec((0usize..RESULT_FIELDS.len(), 0usize..4, 0usize..5_000), 0..12),
        ) {
            let mut data = serde_json::Map::new();
            for (field, kind, size) in fields {
                let value = match kind {
                    0 => json!("\u{1}".repeat(size)),
                    1 => json!("🦀".repeat(size)),
                    2 => json!(vec![1; size]),
                    _ => json!(size),
                };
                data.insert(RESULT_FIELDS[field].to_owned(), value);
            }
            let kept = result_of(&JsonObject::of(&data), Vec::new());
            prop_assert!(kept.text().len() <= MAX_RESULT_BYTES, "{} bytes", kept.text().len());
            let truncated: Vec<String> = kept.fields().iter().find(|(name, _)| name == TRUNCATED)
                .map_or_else(Vec::new, |(_, raw)| serde_json::from_str(raw.get()).unwrap());
            for (name, value) in &data {
                let text = value.to_string();
                let complete = kept.fields().iter().any(|(field, raw)| field == name && raw.get() == text);
                prop_assert!(complete != truncated.contains(name), "{} is either complete or truncated", name);
            }
        }
    }
}
