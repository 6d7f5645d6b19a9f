//! What the agent is asked to do, put together from what the worker was told.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// A task, as far as the worker knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Which task.
    pub task_id: Option<String>,
    /// Which agent, as the plane calls it.
    pub agent_id: Option<String>,
    /// Which specification it belongs to.
    pub spec_id: Option<String>,
    /// Which ticket it belongs to.
    pub ticket_id: Option<String>,
    /// The ticket's title.
    pub ticket_title: Option<String>,
    /// The ticket's text.
    pub ticket_description: Option<String>,
    /// What is to be done.
    pub description: Option<String>,
    /// What is to be done, if nothing else says so.
    pub initial_prompt: Option<String>,
    /// What was said before.
    pub conversation: Option<String>,
    /// What somebody found wrong with the last attempt.
    pub feedback: Option<String>,
    /// More that belongs to it, in words.
    pub context: Option<String>,
    /// `implementer`, `validator`, …
    pub agent_type: Option<String>,
}

impl Task {
    /// From `TASK_DATA_BASE64`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|why| format!("is not base64: {why}"))?;
        let data: Value =
            serde_json::from_slice(&bytes).map_err(|why| format!("does not hold JSON: {why}"))?;
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

    /// What the agent reads first. `None` if there is nothing to do yet: then it waits to be told.
    ///
    /// The whole of what people wrote is in it, not only its title: an agent that reads "Implement: fix login" cannot
    /// know what they meant.
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
                parts.push(format!("# The ticket\n\n{}", ticket.join("\n\n")));
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
        section("What was said before", &self.conversation);
        section("What was wrong with the last attempt", &self.feedback);
        Some(parts.join("\n\n"))
    }

    /// One line for people.
    pub fn headline(&self) -> String {
        match self.prompt() {
            None => "none: it waits to be told".to_owned(),
            Some(prompt) => {
                let line = prompt.lines().next().unwrap_or_default();
                let short = crate::event::first_chars(line, 80);
                if short.len() < prompt.len() { format!("{short} …") } else { short.to_owned() }
            }
        }
    }

    /// Fields that every event has.
    pub fn context(&self) -> Map<String, Value> {
        let fields = [("task_id", &self.task_id), ("agent_id", &self.agent_id), ("spec_id", &self.spec_id)];
        let fields =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())));
        fields.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_agent_reads_everything_that_people_wrote() {
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
        assert_eq!(prompt.matches("Fix login").count(), 1, "the title is in the task already");
        assert_eq!(task.task_id.as_deref(), Some("t-1"));
    }

    #[test]
    fn nothing_to_do_is_no_prompt() {
        assert_eq!(Task::default().prompt(), None);
        let ticket = Task { ticket_title: Some("Tidy up".into()), ..Task::default() };
        assert_eq!(ticket.prompt().as_deref(), Some("Work on this ticket: Tidy up"));
    }
}
