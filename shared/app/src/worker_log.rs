//! The log of a sandbox's worker: the end of what it printed, without the secrets that it was given.
//!
//! **Invariant:** no line leaves this module before it is redacted.
//!
//! Deliberately absent: a copy. The provider keeps the log, for as long as it does.

use crate::orchestration::Orchestration;
use domain::SandboxId;
use domain::redact::Secrets;
use providers::{Failure, SandboxProvider, Tail};
use std::time::Duration;

/// A provider that takes longer counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How a worker token begins, as the plane makes them.
const TOKEN: &str = "swt_";

/// The end of a worker's log.
pub(crate) struct Log {
    tail: Tail,
    secrets: Secrets,
}

/// Reads the end of a log. Changes nothing.
pub(crate) async fn read(
    orchestration: &Orchestration,
    provider: &dyn SandboxProvider,
    sandbox: &SandboxId,
) -> Result<Log, Failure> {
    match tokio::time::timeout(TIMEOUT, provider.logs(sandbox)).await {
        Ok(tail) => Ok(Log { tail: tail?, secrets: secrets(orchestration) }),
        Err(_) => Err(Failure::unreachable(format!("the log of {sandbox} took longer than {TIMEOUT:?}"))),
    }
}

impl Log {
    /// All lines, without secrets. The first may be cut off.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.tail.text.lines().map(|line| redacted(line, &self.secrets))
    }
}

/// What workers are given. Lines are redacted one by one, so each line of a value is a secret too.
fn secrets(orchestration: &Orchestration) -> Secrets {
    let given = orchestration.worker_variables.iter().flat_map(|(name, value)| {
        let parts = [value.as_str()].into_iter().chain(value.lines());
        parts.map(|part| (name.clone(), part.to_owned()))
    });
    Secrets::new(given.collect())
}

/// A whole line: half a secret would not be found.
fn redacted(line: &str, secrets: &Secrets) -> String {
    let text = secrets.redact(line).unwrap_or_else(|| line.to_owned());
    let mut parts = text.split(TOKEN);
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "._-~+/=".contains(c);
        redacted.push_str("[redacted SANDBOX_TOKEN]");
        redacted.push_str(part.trim_start_matches(is_token));
    }
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let given = [("ANTHROPIC_API_KEY", "sk-planted-0123456789"), ("KEY", "first half\nsecond half\n")];
        let worker_variables = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let orchestration = Orchestration { worker_variables, ..Orchestration::default() };
        Log { tail: Tail { start: 0, text: text.to_owned() }, secrets: secrets(&orchestration) }
    }

    #[test]
    fn secrets_and_worker_tokens_are_redacted() {
        let log = log("key sk-planted-0123456789, token swt_planted.0.1-2_3, the end\nnothing\n");
        let expected = "key [redacted ANTHROPIC_API_KEY], token [redacted SANDBOX_TOKEN], the end";
        assert_eq!(log.lines().collect::<Vec<_>>(), [expected, "nothing"]);
    }

    #[test]
    fn secret_of_several_lines_is_redacted_line_by_line() {
        let lines: Vec<String> =
            log("a first half\nsecond half b\n\"first half\\nsecond half\"").lines().collect();
        assert_eq!(lines, ["a [redacted KEY]", "[redacted KEY] b", "\"[redacted KEY]\""]);
    }
}
