//! A try at a task: the sandbox that was made for it, how far that has come, and what came of it.
//!
//! Every try has a sandbox of its own, with an id and a token of its own. So whatever comes late comes from a sandbox
//! that is no longer the task's, and changes nothing.

use crate::abridge::abridge;
use crate::event::EventType;
use crate::retry::Class;
use crate::{JsonObject, SandboxId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a sandbox is for. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The task.
    pub task: TaskId,
    /// The task's ticket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    /// Which try at the task.
    pub attempt: u32,
    /// Who makes the sandbox.
    pub provider: String,
}

/// A try, as somebody who reports about it knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number.
    pub number: u32,
    /// Its sandbox.
    pub sandbox: SandboxId,
}

/// How far a sandbox has come at its provider, from the record of it to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// What is being done, or was done last.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// How often this stage has failed.
    #[serde(default)]
    pub tries: u32,
    /// It is not tried again before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Somebody is at it until then; a process that dies lets go of it by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Its provider was left alone until then, for the provider's sake: that time does not count against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// The provider's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// When its worker was first heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// When its worker said goodbye, or nobody waited for that any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_at: Option<Timestamp>,
    /// When the provider said that it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Timestamp>,
}

impl Spawn {
    /// A sandbox that exists on paper only.
    pub fn recorded(now: Timestamp) -> Self {
        Self {
            stage: Stage::Recorded,
            since: now,
            tries: 0,
            retry_at: None,
            lease_until: None,
            held_until: None,
            provider_id: None,
            running_since: None,
            left_at: None,
            released_at: None,
        }
    }

    /// The same at the beginning of another stage.
    #[must_use]
    pub fn at(&self, stage: Stage, now: Timestamp) -> Self {
        Self { stage, since: now, tries: 0, retry_at: None, lease_until: None, ..self.clone() }
    }
}

/// The stages of making a sandbox. Each can be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It is written down.
    Recorded,
    /// What it needs is made ready: the place for a branch of its own.
    Preparing,
    /// The provider makes it.
    Creating,
    /// The worker is put into it.
    Uploading,
    /// The worker is started.
    Starting,
    /// All is done; its worker is to be heard.
    Started,
}

impl Stage {
    /// The stage after this one.
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

    /// Whether a provider is asked for something by then. Before that there is nothing of it anywhere.
    pub fn asks_the_provider(self) -> bool {
        self >= Self::Creating
    }

    /// What is told when it begins.
    pub fn event(self) -> EventType {
        EventType::of_sandbox(match self {
            Self::Recorded => "pending",
            Self::Preparing => "preparing",
            Self::Creating => "creating",
            Self::Uploading => "uploading",
            Self::Starting => "starting",
            Self::Started => "spawned",
        })
    }
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent says that it is done.
    Done {
        /// What it has to show.
        #[serde(deserialize_with = "from_buffered")]
        result: JsonObject,
        /// When.
        at: Timestamp,
    },
    /// It is not done.
    Failed {
        /// Why, in words for people.
        error: String,
        /// Whether another try may do better.
        class: Class,
        /// When.
        at: Timestamp,
    },
    /// Somebody called it off.
    CalledOff {
        /// Why, in words for people.
        reason: String,
        /// When.
        at: Timestamp,
    },
}

/// An outcome is read from a buffer (it is tagged, and in a head that keeps what it does not know), and raw text cannot
/// be: <https://github.com/serde-rs/json/issues/497>.
fn from_buffered<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<JsonObject, D::Error> {
    let fields = serde_json::Map::deserialize(deserializer)?;
    Ok(JsonObject::of(&fields))
}

/// What an event of its worker says about the outcome of a try.
pub fn reported(event_type: &EventType, data: &JsonObject, now: Timestamp) -> Option<Outcome> {
    if event_type.is_called("agent.completed") {
        return Some(Outcome::Done { result: result_of(data), at: now });
    }
    if event_type.is_called("agent.failed") {
        let error = ["error", "error_message", "stop_reason"].iter().find_map(|field| data.string(field));
        let error = error.unwrap_or_else(|| "the agent failed and did not say why".to_owned());
        return Some(Outcome::failed(&error, now));
    }
    None
}

impl Outcome {
    /// A failure, with the class that its words suggest.
    pub fn failed(error: &str, now: Timestamp) -> Self {
        let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
        let class = crate::retry::classify(&error);
        Self::Failed { error, class, at: now }
    }
}

/// Most of an error that is kept with a task; the whole of it is in the sandbox's log.
pub const MAX_ERROR_CHARS: usize = 2_000;
/// Most of a text in a result that is kept with a task.
pub const MAX_RESULT_CHARS: usize = 4_000;
/// Most of a result that is kept with a task, as JSON. An item of the table has room for 400 KB
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>), which a task shares with its
/// description and what was said of it, and a sandbox's head with all that it counts.
pub const MAX_RESULT_BYTES: usize = 32 * 1024;

/// What a task keeps of an agent's last word; the whole of it is in the sandbox's log.
const RESULT_FIELDS: [&str; 18] = [
    "success",
    "turns",
    "cost_usd",
    "input_tokens",
    "output_tokens",
    "session_id",
    "stop_reason",
    "branch_name",
    "final_output",
    "output",
    "artifacts",
    "code_pushed",
    "pr_created",
    "pr_url",
    "pr_number",
    "tests_passed",
    "files_changed",
    "validation_passed",
];

/// Says which fields are not whole, or not there at all, because of their size.
const TRUNCATED: &str = "truncated";

/// The parts of a report that are kept with a task. Texts are cut; then whole fields are left out, the largest first,
/// until the rest fits. What was cut or left out is named in `truncated`.
pub fn result_of(data: &JsonObject) -> JsonObject {
    let (mut kept, mut truncated) = (serde_json::Map::new(), Vec::new());
    for (name, raw) in data.fields() {
        if !RESULT_FIELDS.contains(&name.as_str()) {
            continue;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else { continue };
        if let Value::String(text) = &mut value
            && let Some((end, _)) = text.char_indices().nth(MAX_RESULT_CHARS)
        {
            text.truncate(end);
            truncated.push(name.clone());
        }
        kept.insert(name, value);
    }
    let all_named = JsonObject::of(&serde_json::json!({TRUNCATED: RESULT_FIELDS})).text().len();
    let abridged = abridge(&JsonObject::of(&kept), MAX_RESULT_BYTES - all_named);
    truncated.retain(|name| !abridged.omitted.contains(name));
    truncated.extend(abridged.omitted);
    if truncated.is_empty() {
        return abridged.data;
    }
    let named = serde_json::value::to_raw_value(&truncated).expect("a list of names serialises");
    abridged.data.overlaid(&[(TRUNCATED, Some(named))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn stages_follow_each_other_and_each_is_told() {
        let mut stage = Stage::Recorded;
        let mut told = vec![stage.event().to_string()];
        while let Some(next) = stage.next() {
            assert!(next > stage);
            stage = next;
            told.push(stage.event().to_string());
        }
        assert_eq!(
            told,
            ["pending", "preparing", "creating", "uploading", "starting", "spawned"]
                .map(|name| format!("sandbox.{name}"))
        );
    }

    #[test]
    fn a_head_is_read_as_it_was_written_whatever_came_of_it() {
        let at = Timestamp::from_secs(1);
        let result =
            JsonObject::of(&json!({"turns": 3, "output": "done", "files_changed": [1, {"a": null}]}));
        let outcomes = [
            Outcome::Done { result, at },
            Outcome::failed("timed out", at),
            Outcome::CalledOff { reason: "enough".into(), at },
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
    fn only_the_last_word_decides() {
        let now = Timestamp::from_secs(1);
        let report =
            |name: &str, data: Value| reported(&EventType::parse(name).unwrap(), &JsonObject::of(&data), now);
        let done = report(
            "SANDBOX_AGENT_COMPLETED",
            json!({"turns": 3, "odd": 1, "final_output": "x".repeat(9_000)}),
        );
        let Some(Outcome::Done { result, .. }) = done else { panic!("{done:?}") };
        assert_eq!(result.string("final_output").map(|text| text.len()), Some(MAX_RESULT_CHARS));
        assert!(result.text().ends_with(r#","truncated":["final_output"]}"#), "{}", result.text());
        assert!(!result.text().contains("odd"));
        let failed = report("agent.failed", json!({"error": "API rate limit exceeded"}));
        assert!(matches!(failed, Some(Outcome::Failed { class: Class::Transient, .. })), "{failed:?}");
        for chatter in ["agent.error", "agent.turn_completed", "continuous.completed", "iteration.failed"] {
            assert!(report(chatter, json!({})).is_none(), "{chatter}");
        }
    }

    #[test]
    fn a_result_keeps_what_is_small_and_names_what_was_too_large() {
        let artifacts = json!([{"type": "code_changes", "path": "https://example.org/pr/7", "content": {"has_tests": true}}]);
        let small = json!({"turns": 3, "artifacts": artifacts, "output": "done"});
        let kept: Value = serde_json::from_str(result_of(&JsonObject::of(&small)).text()).unwrap();
        assert_eq!(kept, small, "nothing was too large");
        let large = json!({
            "turns": 3, "artifacts": vec!["x".repeat(100); 400], "files_changed": vec!["a.rs"; 10],
            "output": "y".repeat(5_000), "truncated": "by somebody else",
        });
        let kept: Value = serde_json::from_str(result_of(&JsonObject::of(&large)).text()).unwrap();
        let expected = json!({
            "turns": 3, "files_changed": vec!["a.rs"; 10], "output": "y".repeat(MAX_RESULT_CHARS),
            "truncated": ["output", "artifacts"],
        });
        assert_eq!(kept, expected);
    }

    proptest! {
        /// Whatever an agent says: characters of four bytes, and such as JSON spells with six.
        #[test]
        fn a_result_fits_whatever_an_agent_says(
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
            let kept = result_of(&JsonObject::of(&data));
            prop_assert!(kept.text().len() <= MAX_RESULT_BYTES, "{} bytes", kept.text().len());
            let truncated: Vec<String> = kept.fields().iter().find(|(name, _)| name == TRUNCATED)
                .map_or_else(Vec::new, |(_, raw)| serde_json::from_str(raw.get()).unwrap());
            for (name, value) in &data {
                let spelled = value.to_string();
                let whole = kept.fields().iter().any(|(field, raw)| field == name && raw.get() == spelled);
                prop_assert!(whole != truncated.contains(name), "{} is whole, or is said not to be", name);
            }
        }
    }
}
