//! Formats events of a sandbox for a terminal.

use serde_json::Value;

/// Maximum length of the text on a line.
const MAX_CHARS: usize = 160;

/// A line for an important event; `None` for others.
pub(super) fn line(event_type: &str, data: &Value) -> Option<String> {
    let field = |fields: &[&str]| fields.iter().find_map(|name| data[*name].as_str()).unwrap_or_default();
    let (subject, text) = match event_type {
        "sandbox.creating" => ("sandbox", "creating".to_owned()),
        "sandbox.spawned" => ("sandbox", "created; worker started".to_owned()),
        "sandbox.failed" | "sandbox.terminated" | "sandbox.terminated_idle" => {
            ("sandbox", format!("ended: {}", field(&["message", "error", "reason"])))
        }
        "agent.started" => ("agent", "started".to_owned()),
        "agent.message" => ("agent", field(&["content", "text", "message"]).to_owned()),
        "agent.tool_use" => ("agent", format!("uses {}", field(&["tool", "tool_name"]))),
        "agent.file_edited" => ("agent", format!("edited {}", field(&["file_path", "path"]))),
        "agent.completed" => ("agent", "completed".to_owned()),
        "agent.failed" | "agent.error" | "agent.stream_error" => {
            ("agent", format!("error: {}", field(&["error", "message", "stop_reason"])))
        }
        _ => return None,
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(MAX_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    (!shown.is_empty()).then(|| format!("{subject:<10} {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_important_events_have_a_line() {
        let shown = |name: &str, data: Value| line(name, &data);
        assert_eq!(shown("agent.tool_use", json!({"tool": "Bash"})).as_deref(), Some("agent      uses Bash"));
        let long = shown("agent.message", json!({"content": "one\ntwo ".repeat(100)})).unwrap();
        assert!(
            long.starts_with("agent      one two one two") && long.ends_with('…') && !long.contains('\n')
        );
        assert_eq!(shown("agent.message", json!({})), None);
        assert_eq!(shown("agent.thinking", json!({"content": "hm"})), None);
    }
}
