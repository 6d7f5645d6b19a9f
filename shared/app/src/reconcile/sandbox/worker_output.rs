//! The last output of a worker that has disappeared. It may contain the reason.

use crate::orchestration::{Orchestration, Providers};
use crate::sandboxes;
use domain::Sandbox;

/// Maximum size of the output in the event.
const MAX_BYTES: usize = 2_048;

/// The last lines of a worker's log, redacted. `None` if the log cannot be read, because the sandbox is ended in any
/// case.
pub(super) async fn of(
    orchestration: &Orchestration,
    providers: &Providers,
    sandbox: &Sandbox,
) -> Option<String> {
    let provider = providers.get(&sandbox.assignment.as_ref()?.provider)?;
    let log = sandboxes::worker_log::read(orchestration, provider.as_ref(), &sandbox.id).await.ok()?;
    let output = end_of(&log.lines().collect::<Vec<_>>().join("\n"));
    (!output.is_empty()).then_some(output)
}

/// The last complete lines, or the end of the text if there is only one line.
fn end_of(text: &str) -> String {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(MAX_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let end = &text[from..];
    match end.split_once('\n') {
        Some((_, lines)) if from > 0 => lines.to_owned(),
        _ => end.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_at_line_boundaries() {
        assert_eq!(end_of("one\ntwo\n\n"), "one\ntwo");
        let long = end_of(&format!("{}\nlast: é\n", "é".repeat(2_000)));
        assert_eq!(long, "last: é");
        let one_line = end_of(&"é".repeat(2_000));
        assert!(one_line.len() <= MAX_BYTES && one_line.len() > MAX_BYTES - 4, "{}", one_line.len());
        let many = (0..500).map(|line| format!("line {line}\n")).collect::<String>();
        let end = end_of(&many);
        assert!(end.starts_with("line ") && end.ends_with("line 499") && end.len() <= MAX_BYTES, "{end}");
    }
}
