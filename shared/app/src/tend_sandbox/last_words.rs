//! What a worker printed before it was missed: it may say why, and nobody can ask it any more.

use crate::orchestration::{Orchestration, Providers};
use domain::Head;
use domain::redact::Secrets;
use std::time::Duration;

/// Most of it that is told: its end, where the reason is.
const MAX_BYTES: usize = 2_048;
/// Nobody waits for it for longer; the end is told in any case.
const PATIENCE: Duration = Duration::from_secs(10);
/// How a worker's token begins, as the plane makes them.
const TOKEN: &str = "swt_";

/// The last lines of a sandbox's worker, without the secrets that it was given.
pub(super) async fn of(orchestration: &Orchestration, providers: &Providers, head: &Head) -> Option<String> {
    let provider = providers.get(&head.assignment.as_ref()?.provider)?;
    let printed = tokio::time::timeout(PATIENCE, provider.logs(&head.id)).await.ok()?.ok()?;
    let given = orchestration.worker_variables.clone().into_iter().collect();
    let told = end_of(&redacted(&printed, &Secrets::new(given)));
    (!told.is_empty()).then_some(told)
}

/// The whole text is looked through before anything is cut: half a secret is not found.
fn redacted(printed: &str, secrets: &Secrets) -> String {
    let text = secrets.redact(printed).unwrap_or_else(|| printed.to_owned());
    let mut parts = text.split(TOKEN);
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "._-~+/=".contains(c);
        told.push_str("[redacted SANDBOX_TOKEN]");
        told.push_str(part.trim_start_matches(is_token));
    }
    told
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
    fn the_end_is_told_in_whole_lines_and_without_secrets() {
        let secrets = Secrets::new(vec![("ANTHROPIC_API_KEY".into(), "sk-planted-0123456789".into())]);
        let printed = "key sk-planted-0123456789, token swt_planted.0.1-2_3, the end";
        let expected = "key [redacted ANTHROPIC_API_KEY], token [redacted SANDBOX_TOKEN], the end";
        assert_eq!(redacted(printed, &secrets), expected);
        assert_eq!(redacted("nothing", &secrets), "nothing");
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
