//! What happens in a sandbox, in words for a terminal.

use serde_json::Value;

/// Most of a text that is shown on its line.
const SHOWN_CHARS: usize = 160;

/// One line for what is worth one.
pub(super) fn of(event_type: &str, data: &Value) -> Option<String> {
    let text = |fields: &[&str]| fields.iter().find_map(|field| data[*field].as_str()).unwrap_or_default();
    let (who, what) = match event_type {
        "sandbox.creating" => ("sandbox", "is being made".to_owned()),
        "sandbox.spawned" => ("sandbox", "is made, and its worker started".to_owned()),
        "sandbox.failed" | "sandbox.terminated" | "sandbox.terminated_idle" => {
            ("sandbox", format!("ended: {}", text(&["message", "error", "reason"])))
        }
        "agent.started" => ("agent", "begins".to_owned()),
        "agent.message" => ("agent", text(&["content", "text", "message"]).to_owned()),
        "agent.tool_use" => ("agent", format!("uses {}", text(&["tool", "tool_name"]))),
        "agent.file_edited" => ("agent", format!("changed {}", text(&["file_path", "path"]))),
        "agent.completed" => ("agent", "is done".to_owned()),
        "agent.failed" | "agent.error" | "agent.stream_error" => {
            ("agent", format!("has trouble: {}", text(&["error", "message", "stop_reason"])))
        }
        _ => return None,
    };
    let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(SHOWN_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    (!shown.is_empty()).then(|| format!("{who:<10} {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_matters_is_a_line_and_the_rest_is_not_shown() {
        let shown = |name: &str, data: Value| of(name, &data);
        assert_eq!(shown("agent.tool_use", json!({"tool": "Bash"})).as_deref(), Some("agent      uses Bash"));
        let long = shown("agent.message", json!({"content": "one\ntwo ".repeat(100)})).unwrap();
        assert!(
            long.starts_with("agent      one two one two") && long.ends_with('…') && !long.contains('\n')
        );
        assert_eq!(shown("agent.message", json!({})), None);
        assert_eq!(shown("agent.thinking", json!({"content": "hm"})), None);
    }
}
