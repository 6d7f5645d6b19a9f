//! What workers, and those who judge their results, report about tasks.

use crate::bad_input::BadInput;
use crate::body::{Body, required};
use domain::attempt::{MAX_ERROR_CHARS, MAX_RESULT_CHARS};
use domain::{JsonObject, TaskId};

/// `POST /api/v1/sandboxes/{id}/task-complete`.
#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    /// The task that the worker believes to work on.
    pub task: TaskId,
    /// What came of it.
    pub report: Report,
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
        let body = Body::read(body)?;
        let task = required("task_id", body.parsed("task_id", TaskId::parse)?)?;
        let result = body.raw_object("result")?;
        let error = body.text("error_message")?;
        let report = match body.flag("success")?.unwrap_or(true) {
            true => Report::Done(result.map_or_else(JsonObject::empty, JsonObject::of)),
            false => {
                let error = error.unwrap_or("the worker reported a failure and did not say why");
                Report::Failed(error.chars().take(MAX_ERROR_CHARS).collect())
            }
        };
        Ok(Self { task, report })
    }
}

/// `POST /api/v1/sandboxes/{id}/validation-result`.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// The task whose result was looked at.
    pub task: TaskId,
    /// Whether it is good enough.
    pub passed: bool,
    /// What is said of it, with what is recommended: what the next try is told.
    pub feedback: String,
    /// What the judgement is made from.
    pub evidence: Option<JsonObject>,
}

impl Judge {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let body = Body::read(body)?;
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
        let evidence = body.raw_object("evidence")?.map(JsonObject::of);
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
    fn a_judgement_tells_the_next_try_what_is_recommended() {
        let read = |body: serde_json::Value| Judge::decode(body.to_string().as_bytes());
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
