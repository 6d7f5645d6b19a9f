//! What a worker printed before it was missed: it may say why, and nobody can ask it any more.

use crate::orchestration::{Orchestration, Providers};
use crate::sandboxes;
use domain::Sandbox;

/// Most of it that is told: its end, where the reason is.
const MAX_BYTES: usize = 2_048;

/// The last lines of a sandbox's worker, without the secrets that it was given. The end is told in any case, so a log
/// that cannot be read is none.
pub(super) async fn of(
    orchestration: &Orchestration,
    providers: &Providers,
    head: &Sandbox,
) -> Option<String> {
    let provider = providers.get(&head.assignment.as_ref()?.provider)?;
    let log = sandboxes::worker_log::read(orchestration, provider.as_ref(), &head.id).await.ok()?;
    let told = end_of(&log.lines().collect::<Vec<_>>().join("\n"));
    (!told.is_empty()).then_some(told)
}

/// Whole lines, if there are any.
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
    fn the_end_is_told_in_whole_lines() {
        assert_eq!(end_of("one\ntwo\n\n"), "one\ntwo");
        let long = end_of(&format!("{}\nlast: é\n", "é".repeat(2_000)));
        assert_eq!(long, "last: é");
        let one_line = end_of(&"é".repeat(2_000));
        assert!(one_line.len() <= MAX_BYTES && one_line.len() > MAX_BYTES - 4, "{}", one_line.len());
        let many = (0..500).map(|line| format!("line {line}\n")).collect::<String>();
        let told = end_of(&many);
        assert!(told.starts_with("line ") && told.ends_with("line 499") && told.len() <= MAX_BYTES, "{told}");
    }
}
