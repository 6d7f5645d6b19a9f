//! What workers, and those who judge their results, report about tasks.

use crate::bad_input::BadInput;
use crate::fields::{Fields, required};
use crate::limits::MAX_BATCH_BYTES;
use domain::attempt::{MAX_ERROR_CHARS, MAX_RESULT_CHARS};
use domain::{JsonObject, TaskId};

/// `POST /api/v1/sandboxes/{id}/task-complete`.
#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    /// The task that the worker believes to work on.
    pub task: TaskId,
    /// What came of it.
    pub report: Report,
    /// All that was said of it, as the sandbox's log keeps it: `result`, with the task and the error.
    pub said: JsonObject,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It is done; this is what there is to show.
    Done(JsonObject),
    /// It is not done; this is why.
    Failed(String),
}

impl Complete {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        let task = required("task_id", body.parsed("task_id", TaskId::parse)?)?;
        let result = result(&body)?.unwrap_or_else(JsonObject::empty);
        let error = body.text("error_message")?;
        if error.is_some_and(|error| error.len() > MAX_BATCH_BYTES) {
            return Err(BadInput::too_large("error_message", MAX_BATCH_BYTES));
        }
        let raw = |value: &str| serde_json::value::to_raw_value(value).ok();
        let mut said = result.overlaid(&[("task_id", raw(task.as_str()))]);
        let report = match body.flag("success")?.unwrap_or(true) {
            true => Report::Done(result),
            false => {
                let error = error.unwrap_or("the worker reported a failure and did not say why");
                said = said.overlaid(&[("error", raw(error))]);
                Report::Failed(error.chars().take(MAX_ERROR_CHARS).collect())
            }
        };
        Ok(Self { task, report, said })
    }
}

/// What there is to show. It goes into a log and a task, which are read again: what an event may not be, it may not be.
fn result(body: &Fields) -> Result<Option<JsonObject>, BadInput> {
    let Some(result) = body.object("result")?.map(|result| result.as_json()) else { return Ok(None) };
    if result.text().len() > MAX_BATCH_BYTES {
        return Err(BadInput::too_large("result", MAX_BATCH_BYTES));
    }
    let raw = serde_json::value::to_raw_value(&result).expect("an object serialises");
    JsonObject::parse(&raw).map(Some).map_err(|reason| BadInput::invalid("result", reason))
}

/// `POST /api/v1/sandboxes/{id}/validation-result`.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// The task whose result was looked at.
    pub task: TaskId,
    /// Whether it is good enough.
    pub passed: bool,
    /// What is said of it, with what is recommended: what the next try is told.
    pub feedback: String,
    /// What the judgement is made from.
    pub evidence: Option<JsonObject>,
}

impl Review {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Fields::decode(body)?;
        let task = required("task_id", body.parsed("task_id", TaskId::parse)?)?;
        let passed = required("passed", body.flag("passed")?)?;
        let mut feedback = required("feedback", body.text("feedback")?)?.trim().to_owned();
        let recommended = body.list("recommendations", Ok)?.unwrap_or_default();
        for recommendation in recommended.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            feedback.push_str(if feedback.is_empty() { "- " } else { "\n- " });
            feedback.push_str(recommendation);
        }
        if feedback.chars().count() > MAX_FEEDBACK_CHARS || feedback.contains('\0') {
            let rule = format!(
                "must be at most {MAX_FEEDBACK_CHARS} characters with the recommendations, none of them the character 0"
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

/// Longest judgement: the next try is told it, and a task keeps it.
const MAX_FEEDBACK_CHARS: usize = 2 * MAX_RESULT_CHARS;
/// Largest evidence: it stands in the task's log.
const MAX_EVIDENCE_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_a_success_unless_it_says_otherwise() {
        let read = |body: serde_json::Value| Complete::decode(body.to_string().as_bytes());
        let done = read(json!({"task_id": "t", "result": {"output": "done"}})).unwrap();
        assert_eq!(done.report, Report::Done(JsonObject::of(&json!({"output": "done"}))));
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
    fn all_that_a_worker_says_of_its_task_is_there_for_the_log() {
        let said = |body: serde_json::Value| {
            let said = Complete::decode(body.to_string().as_bytes()).unwrap().said;
            serde_json::from_str::<serde_json::Value>(said.text()).unwrap()
        };
        let done = said(json!({"task_id": "t", "result": {"output": "done", "own": [1]}}));
        assert_eq!(done, json!({"output": "done", "own": [1], "task_id": "t"}));
        let error = "x".repeat(MAX_ERROR_CHARS + 1);
        let body = json!({"task_id": "t", "success": false, "error_message": error, "result": {"own": [1]}});
        assert_eq!(said(body), json!({"own": [1], "task_id": "t", "error": error}));
    }

    #[test]
    fn a_judgement_tells_the_next_try_what_is_recommended() {
        let read = |body: serde_json::Value| Review::decode(body.to_string().as_bytes());
        let judge = read(json!({
            "task_id": "t", "passed": false, "feedback": "no tests", "recommendations": ["write some", " "],
        }));
        assert_eq!(judge.unwrap().feedback, "no tests\n- write some");
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
