//! The agent's task, and the prompt made from it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use contract::payloads::WorkerContext;
use domain::SandboxId;
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    pub task_id: Option<String>,
    pub agent_id: Option<String>,
    pub spec_id: Option<String>,
    pub ticket_id: Option<String>,
    pub ticket_title: Option<String>,
    pub ticket_description: Option<String>,
    pub description: Option<String>,
    /// Used if there is no `description`.
    pub initial_prompt: Option<String>,
    /// Previous conversation.
    pub conversation: Option<String>,
    /// Review feedback on the last attempt.
    pub feedback: Option<String>,
    /// Additional context as Markdown.
    pub context: Option<String>,
    /// `implementer`, `validator`, …
    pub agent_type: Option<String>,
}

impl Task {
    /// Parses `TASK_DATA_BASE64`.
    ///
    /// # Errors
    /// A human-readable message.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|why| format!("invalid base64: {why}"))?;
        let data: Value = serde_json::from_slice(&bytes).map_err(|why| format!("invalid JSON: {why}"))?;
        let read = |pointer: &str| {
            let text = data.pointer(pointer).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let recommendations = data.pointer("/revision/recommendations").and_then(Value::as_array);
        let recommendations = recommendations.into_iter().flatten().filter_map(Value::as_str);
        let feedback: Vec<String> = read("/revision/feedback")
            .into_iter()
            .chain(recommendations.map(|recommendation| format!("- {recommendation}")))
            .collect();
        Ok(Self {
            task_id: read("/task/id"),
            spec_id: read("/spec/id"),
            ticket_id: read("/ticket/id"),
            ticket_title: read("/ticket/title"),
            ticket_description: read("/ticket/description"),
            description: read("/task/description"),
            context: read("/_markdown_context").or_else(|| read("/ticket/context")),
            feedback: (!feedback.is_empty()).then(|| feedback.join("\n")),
            ..Self::default()
        })
    }

    /// The first prompt for the agent. `None` if there is no task yet; the agent then waits for messages.
    ///
    /// It contains the full texts, not only the title: "Implement: fix login" alone does not say what is broken.
    pub fn prompt(&self) -> Option<String> {
        let main = self.description.as_ref().or(self.initial_prompt.as_ref());
        let title = self.ticket_title.as_deref();
        let mut parts = Vec::new();
        match (main, title, &self.ticket_description) {
            (Some(main), ..) => parts.push(main.clone()),
            (None, Some(title), None) => parts.push(format!("Work on this ticket: {title}")),
            (None, Some(title), Some(text)) => parts.push(format!("{title}\n\n{text}")),
            (None, None, Some(text)) => parts.push(text.clone()),
            (None, None, None) => {}
        }
        if let Some(main) = main {
            let ticket = [title, self.ticket_description.as_deref()];
            let ticket: Vec<&str> =
                ticket.into_iter().flatten().filter(|text| !main.contains(*text)).collect();
            if !ticket.is_empty() {
                parts.push(format!("# Ticket\n\n{}", ticket.join("\n\n")));
            }
        }
        if parts.is_empty() {
            return None;
        }
        let mut section = |title: &str, text: &Option<String>| {
            if let Some(text) = text {
                parts.push(format!("# {title}\n\n{text}"));
            }
        };
        section("Context", &self.context);
        section("Previous conversation", &self.conversation);
        section("Feedback on the last attempt", &self.feedback);
        Some(parts.join("\n\n"))
    }

    /// What the task is called, or the beginning of what it says.
    pub fn title(&self) -> Option<String> {
        let texts = [&self.ticket_title, &self.description, &self.initial_prompt, &self.ticket_description];
        texts.into_iter().flatten().next().cloned()
    }

    /// One-line summary for display.
    pub fn headline(&self) -> String {
        match self.prompt() {
            None => "none (waiting for messages)".to_owned(),
            Some(prompt) => {
                let line = prompt.lines().next().unwrap_or_default();
                let short = crate::event::first_chars(line, 80);
                if short.len() < prompt.len() { format!("{short} …") } else { short.to_owned() }
            }
        }
    }

    /// Fields added to every event.
    pub fn event_fields(&self, sandbox: &SandboxId) -> WorkerContext {
        WorkerContext {
            task_id: self.task_id.clone(),
            agent_id: self.agent_id.clone(),
            spec_id: self.spec_id.clone(),
            sandbox_id: sandbox.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prompt_contains_task_ticket_and_feedback() {
        let data = json!({
            "task": { "id": "t-1", "description": "Implement: Fix login" },
            "ticket": { "id": "k-1", "title": "Fix login", "description": "After a reset the old password still works." },
            "revision": { "feedback": "The test is missing.", "recommendations": ["Add one."] },
        });
        let task = Task::decode(&BASE64_STANDARD.encode(data.to_string())).unwrap();
        let prompt = task.prompt().unwrap();
        for part in ["Implement: Fix login", "old password still works", "The test is missing.", "- Add one."]
        {
            assert!(prompt.contains(part), "{part:?} is not in {prompt:?}");
        }
        assert_eq!(prompt.matches("Fix login").count(), 1, "the title is part of the description already");
        assert_eq!(task.task_id.as_deref(), Some("t-1"));
    }

    #[test]
    fn empty_task_has_no_prompt() {
        assert_eq!(Task::default().prompt(), None);
        let ticket = Task { ticket_title: Some("Tidy up".into()), ..Task::default() };
        assert_eq!(ticket.prompt().as_deref(), Some("Work on this ticket: Tidy up"));
    }
}
