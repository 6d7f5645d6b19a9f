//! Title and description of a pull request.

use code_hosts::Comparison;
use domain::event::catalogue;
use domain::event::payloads::{AgentCompleted, RunReport, RunState};
use domain::feedback::without_answers;
use domain::{JsonObject, Task};
use std::fmt::Write;

/// Maximum length of a title. Longer ones are cut by code hosts.
const MAX_TITLE_CHARS: usize = 120;
/// Maximum number of files that are listed.
const MAX_FILES: usize = 50;
/// Maximum length of a text of the task or the agent. Code hosts accept 65,536 characters in all.
const MAX_TEXT_CHARS: usize = 10_000;

pub(super) fn title(task: &Task) -> String {
    let title = task.title.strip_prefix("Implement: ").unwrap_or(&task.title);
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", title[..end].trim_end()),
        None => title.to_owned(),
    }
}

/// The page of the task's sandbox in the console.
pub(super) fn link(task: &Task, plane: &str) -> Option<String> {
    let sandbox = task.sandbox.as_ref()?;
    Some(format!("{}/sandbox/{sandbox}", plane.trim_end_matches('/')))
}

/// Markdown. What the agent wrote is quoted, so that it cannot look like a part of the plane's own text.
pub(super) fn body(task: &Task, result: &JsonObject, compared: &Comparison, plane: &str) -> String {
    let reported: AgentCompleted = catalogue::read(result).unwrap_or_default();
    let RunReport { state: RunState { tests_passed, .. }, turns, cost_usd, final_output, output, .. } =
        reported.report;
    let mut body = String::new();
    section(&mut body, "Task", &task.description);
    let summary = Some(final_output).filter(|text| !text.trim().is_empty()).or(output).unwrap_or_default();
    // Its answers to reviewers are posted as replies.
    section(&mut body, "Summary of the agent", &without_answers(&summary));
    body.push_str("### Files\n\n");
    for file in compared.files.iter().take(MAX_FILES) {
        let path = visible(&file.path).replace('`', "'");
        let _ = writeln!(body, "- `{path}` (+{} −{})", file.additions, file.deletions);
    }
    if compared.files.len() > MAX_FILES || compared.files_cut {
        body.push_str("- and more\n");
    }
    let tests = match tests_passed {
        Some(true) => "passed",
        Some(false) => "failed",
        None => "not run by the worker",
    };
    let _ = write!(body, "\n### Run\n\nTests: {tests}. Turns: {turns}. Cost: ${cost_usd:.2}.");
    let _ = write!(body, " Attempts: {}.\n\n", task.attempt);
    if let Some(link) = link(task, plane) {
        let _ = writeln!(body, "[What the agent did]({link})");
    }
    let ticket = task.ticket.as_ref().map(|ticket| format!("Ticket `{ticket}`, ")).unwrap_or_default();
    let _ = writeln!(body, "\n{ticket}task `{}`", task.id);
    body
}

/// Without control characters. A carriage return ends a line of Markdown, and with it a quote.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// A heading and a quoted text.
fn section(body: &mut String, heading: &str, text: &str) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let _ = writeln!(body, "### {heading}\n");
    let shown: String = text.chars().take(MAX_TEXT_CHARS).collect();
    for line in shown.lines() {
        // Mentions would notify people.
        let _ = writeln!(body, "> {}", visible(line).replace('@', "@\u{200b}"));
    }
    if shown.len() < text.len() {
        body.push_str("> …\n");
    }
    body.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use code_hosts::{FileChange, FileStatus};
    use domain::ticket::{NewTask, TaskOptions};
    use domain::{OrgId, TaskId, TicketId, Timestamp, task::Execution, task::Priority};
    use serde_json::json;

    fn task(description: &str) -> Task {
        let new = NewTask {
            ticket: TicketId::parse("ticket-1").unwrap(),
            org: OrgId::parse("acme").unwrap(),
            project: None,
            task_type: "implement_feature".into(),
            title: "Implement: Count the words".into(),
            description: description.into(),
            phase: "PHASE_IMPLEMENTATION".into(),
            priority: Priority::Medium,
            execution: Execution::default(),
            task_options: TaskOptions::default(),
        };
        new.into_task(TaskId::parse("task-1").unwrap(), Timestamp::from_secs(1))
    }

    fn compared(paths: usize) -> Comparison {
        let file = |index: usize| FileChange {
            path: format!("src/`file`-{index}.rs"),
            previous_path: None,
            status: FileStatus::Added,
            additions: 3,
            deletions: 1,
            patch: None,
            patch_cut: false,
        };
        Comparison { ahead: 1, behind: 0, files: (0..paths).map(file).collect(), files_cut: false }
    }

    #[test]
    fn body_says_what_was_done_and_quotes_others() {
        let result = JsonObject::of(&json!({
            "final_output": "Done.\n# Not a heading @alice\rTests: failed", "tests_passed": true, "turns": 4, "cost_usd": 0.256,
        }));
        let body = body(&task("Count words.\n\n### Files"), &result, &compared(2), "https://plane.example/");
        for part in [
            "### Task\n\n> Count words.\n> \n> ### Files\n",
            "> # Not a heading @\u{200b}alice\u{fffd}Tests: failed\n",
            "- `src/'file'-1.rs` (+3 −1)\n",
            "Tests: passed. Turns: 4. Cost: $0.26.",
            "Ticket `ticket-1`, task `task-1`",
        ] {
            assert!(body.contains(part), "{part:?} in {body}");
        }
        assert!(body.lines().all(|line| !line.starts_with("# ")), "{body}");
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        let text = "x".repeat(100_000);
        let result = JsonObject::of(&json!({"final_output": text}));
        let body = body(&task(&text), &result, &compared(60), "https://plane.example");
        assert!(body.len() < 40_000, "{}", body.len());
        assert!(body.contains("- and more\n") && body.contains("> …\n"));
        assert_eq!(title(&task("")), "Count the words");
        assert_eq!(title(&Task { title: "y".repeat(300), ..task("") }).chars().count(), MAX_TITLE_CHARS + 1);
    }
}
