//! Reports about tasks: the result from a worker, and the review.

use crate::bad_input::BadInput;
use crate::fields::{Fields, required};
use crate::limits::MAX_BATCH_BYTES;
use domain::attempt::{MAX_ERROR_CHARS, MAX_RESULT_CHARS};
use domain::{JsonObject, TaskId};

/// `POST /api/v1/sandboxes/{id}/task-complete`.
#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    /// The task that the worker works on, as far as it knows.
    pub task: TaskId,
    pub report: Report,
    /// Data of the event in the sandbox's log: the full `result`, with the task and the error.
    pub event_data: JsonObject,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// With the result.
    Completed(JsonObject),
    /// With the error.
    Failed(String),
}

impl Complete {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        let task = required("task_id", body.parsed("task_id", TaskId::parse)?)?;
        let result = result(&body)?.unwrap_or_else(JsonObject::empty);
        let error = body.text("error_message")?;
        if error.is_some_and(|error| error.len() > MAX_BATCH_BYTES) {
            return Err(BadInput::too_large("error_message", MAX_BATCH_BYTES));
        }
        let raw = |value: &str| serde_json::value::to_raw_value(value).ok();
        let mut event_data = result.with_fields(&[("task_id", raw(task.as_str()))]);
        let report = match body.flag("success")?.unwrap_or(true) {
            true => Report::Completed(result),
            false => {
                let error = error.unwrap_or("the worker reported a failure without an error message");
                event_data = event_data.with_fields(&[("error", raw(error))]);
                Report::Failed(error.chars().take(MAX_ERROR_CHARS).collect())
            }
        };
        Ok(Self { task, report, event_data })
    }
}

/// The result becomes part of a log and a task, so it has the limits of an event.
fn result(body: &Fields) -> Result<Option<JsonObject>, BadInput> {
    let Some(result) = body.object("result")?.map(|result| result.as_json()) else { return Ok(None) };
    if result.text().len() > MAX_BATCH_BYTES {
        return Err(BadInput::too_large("result", MAX_BATCH_BYTES));
    }
    let raw = serde_json::value::to_raw_value(&result).expect("an object serializes");
    JsonObject::parse(&raw).map(Some).map_err(|reason| BadInput::invalid("result", reason))
}

/// `POST /api/v1/sandboxes/{id}/validation-result`.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    pub task: TaskId,
    pub passed: bool,
    /// With the recommendations. It becomes part of the prompt of the next attempt.
    pub feedback: String,
    pub evidence: Option<JsonObject>,
}

impl Review {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        let task = required("task_id", body.parsed("task_id", TaskId::parse)?)?;
        let passed = required("passed", body.flag("passed")?)?;
        let mut feedback = required("feedback", body.text("feedback")?)?.trim().to_owned();
        let recommendations = body.list("recommendations", Ok)?.unwrap_or_default();
        for recommendation in recommendations.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            feedback.push_str(if feedback.is_empty() { "- " } else { "\n- " });
            feedback.push_str(recommendation);
        }
        if feedback.chars().count() > MAX_FEEDBACK_CHARS || feedback.contains('\0') {
            let rule = format!(
                "must be at most {MAX_FEEDBACK_CHARS} characters with the recommendations, without the character U+0000"
            );
            return Err(BadInput::invalid("feedback", rule));
        }
        let evidence = body.object("evidence")?.map(|evidence| evidence.as_json());
        if evidence.as_ref().is_some_and(|evidence| evidence.text().len() > MAX_EVIDENCE_BYTES) {
            return Err(BadInput::too_large("evidence", MAX_EVIDENCE_BYTES));
        }
        Ok(Self { task, passed, feedback, evidence })
    }
}

/// Maximum length of the feedback, which is stored with the task.
const MAX_FEEDBACK_CHARS: usize = 2 * MAX_RESULT_CHARS;
/// Maximum size of the evidence, which is stored in the task's log.
const MAX_EVIDENCE_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_a_success_by_default() {
        let read = |body: serde_json::Value| Complete::decode(body.to_string().as_bytes());
        let completed = read(json!({"task_id": "t", "result": {"output": "done"}})).unwrap();
        assert_eq!(completed.report, Report::Completed(JsonObject::of(&json!({"output": "done"}))));
        let failed = read(json!({"task_id": "t", "success": false, "error_message": "no disk"})).unwrap();
        assert_eq!(failed.report, Report::Failed("no disk".into()));
        let large = json!({"task_id": "t", "result": {"output": "x".repeat(MAX_BATCH_BYTES)}});
        assert!(matches!(read(large), Err(BadInput::TooLarge(wrong)) if wrong.field == "result"));
        let deep =
            format!(r#"{{"task_id":"t","result":{{"artifacts":{}{}}}}}"#, "[".repeat(64), "]".repeat(64));
        assert!(
            matches!(Complete::decode(deep.as_bytes()), Err(BadInput::Invalid(wrong)) if wrong.field == "result")
        );
        for (body, field) in [
            (json!({}), "task_id"),
            (json!({"task_id": "t", "success": "yes"}), "success"),
            (json!({"task_id": "t", "result": "done"}), "result"),
            (json!({"task_id": "t", "error_message": 5}), "error_message"),
        ] {
            let Err(BadInput::Invalid(wrong)) = read(body.clone()) else { panic!("{body}") };
            assert_eq!(wrong.field, field, "{body}");
        }
    }

    #[test]
    fn the_log_gets_the_full_report() {
        let event_data = |body: serde_json::Value| {
            let data = Complete::decode(body.to_string().as_bytes()).unwrap().event_data;
            serde_json::from_str::<serde_json::Value>(data.text()).unwrap()
        };
        let completed = event_data(json!({"task_id": "t", "result": {"output": "done", "own": [1]}}));
        assert_eq!(completed, json!({"output": "done", "own": [1], "task_id": "t"}));
        let error = "x".repeat(MAX_ERROR_CHARS + 1);
        let body = json!({"task_id": "t", "success": false, "error_message": error, "result": {"own": [1]}});
        assert_eq!(event_data(body), json!({"own": [1], "task_id": "t", "error": error}));
    }

    #[test]
    fn feedback_includes_the_recommendations() {
        let read = |body: serde_json::Value| Review::decode(body.to_string().as_bytes());
        let review = read(json!({
            "task_id": "t", "passed": false, "feedback": "no tests", "recommendations": ["write some", " "],
        }));
        assert_eq!(review.unwrap().feedback, "no tests\n- write some");
        for (body, field) in [
            (json!({"passed": true, "feedback": ""}), "task_id"),
            (json!({"task_id": "t", "feedback": ""}), "passed"),
            (json!({"task_id": "t", "passed": true}), "feedback"),
            (json!({"task_id": "t", "passed": true, "feedback": "x".repeat(8_001)}), "feedback"),
            (json!({"task_id": "t", "passed": true, "feedback": "", "evidence": []}), "evidence"),
            (
                json!({"task_id": "t", "passed": true, "feedback": "", "recommendations": [1]}),
                "recommendations[0]",
            ),
        ] {
            let Err(BadInput::Invalid(wrong)) = read(body.clone()) else { panic!("{body}") };
            assert_eq!(wrong.field, field, "{body}");
        }
    }
}
