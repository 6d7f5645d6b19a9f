//! The end of a worker's log, without the secrets that the worker was given.
//!
//! **Invariant:** no line leaves this module before it is redacted.
//!
//! Deliberately absent: a copy of the log. The provider decides on its retention.

use crate::error::Error;
use crate::orchestration::{Orchestration, Providers};
use crate::visibility::visible_sandbox;
use contract::sandboxes::{LogPage, LogPosition, LogQuery};
use domain::SandboxId;
use domain::access::Principal;
use domain::redact::Secrets;
use providers::{Failure, SandboxProvider, Tail};
use std::time::Duration;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub providers: &'a Providers,
    /// Has the secrets to redact.
    pub orchestration: &'a Orchestration,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub query: LogQuery,
}

pub type Outcome = LogPage;

/// Reads a page from the last [`providers::LOG_BYTES`] of a worker's log.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, query } = command;
    let sandbox = visible_sandbox(deps.store, &principal, &sandbox_id).await?;
    let Some(assignment) = &sandbox.assignment else {
        let missing =
            format!("A worker log of sandbox {sandbox_id}, which was registered without a provider,");
        return Err(Error::NotFound(missing));
    };
    let provider = deps.providers.get(&assignment.provider).ok_or_else(|| {
        Error::Unavailable(format!("the provider {} is not configured", assignment.provider).into())
    })?;
    let log = read(deps.orchestration, provider.as_ref(), &sandbox_id).await;
    let log = log.map_err(|failure| Error::Unavailable(Box::new(failure)))?;
    let Page { lines, before, after } = page(&log.tail, sandbox.status().is_final(), query);
    let lines = lines.into_iter().map(|line| redacted(line, &log.secrets)).collect();
    Ok(LogPage { sandbox_id, lines, before, after })
}

/// Complete lines of a log, and the offsets of the pages before and after it.
#[derive(Debug, PartialEq, Eq)]
struct Page<'a> {
    lines: Vec<&'a str>,
    before: Option<u64>,
    after: u64,
}

/// A line that is cut off at the start of `tail` is omitted. So is an unfinished last line, unless the sandbox has
/// ended. An offset inside a line never splits it: half a secret would not be redacted.
fn page(tail: &Tail, ended: bool, query: LogQuery) -> Page<'_> {
    let mut lines = Vec::new();
    let mut end = tail.start;
    for (index, line) in tail.text.split_inclusive('\n').enumerate() {
        let (start, cut_off) = (end, index == 0 && tail.start > 0);
        let finished = line.ends_with('\n') || ended;
        if finished {
            end += line.len() as u64;
        }
        if finished && !cut_off {
            lines.push((start, end, line.trim_end_matches(['\r', '\n'])));
        }
    }
    let (first, last) = match query.position {
        LogPosition::End => (lines.len().saturating_sub(query.lines), lines.len()),
        LogPosition::Before(offset) => {
            let last = lines.partition_point(|(_, end, _)| *end <= offset);
            (last.saturating_sub(query.lines), last)
        }
        LogPosition::After(offset) => {
            let first = lines.partition_point(|(start, ..)| *start < offset);
            (first, lines.len().min(first.saturating_add(query.lines)))
        }
    };
    let shown = &lines[first..last];
    let here = match query.position {
        LogPosition::End => end,
        LogPosition::Before(offset) | LogPosition::After(offset) => offset,
    };
    Page {
        lines: shown.iter().map(|(.., line)| *line).collect(),
        before: (first > 0).then(|| shown.first().map_or(here, |(start, ..)| *start)),
        after: shown.last().map_or(here, |(_, end, _)| *end),
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);
/// Prefix of worker tokens.
const TOKEN_PREFIX: &str = "swt_";

/// The end of a worker's log.
pub(crate) struct Log {
    tail: Tail,
    secrets: Secrets,
}

pub(crate) async fn read(
    orchestration: &Orchestration,
    provider: &dyn SandboxProvider,
    sandbox_id: &SandboxId,
) -> Result<Log, Failure> {
    match tokio::time::timeout(TIMEOUT, provider.logs(sandbox_id)).await {
        Ok(tail) => Ok(Log { tail: tail?, secrets: secrets(orchestration) }),
        Err(_) => Err(Failure::unreachable(format!("the log of {sandbox_id} took longer than {TIMEOUT:?}"))),
    }
}

impl Log {
    /// All lines, redacted. The first may be cut off.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.tail.text.lines().map(|line| redacted(line, &self.secrets))
    }
}

/// The variables given to workers. Lines are redacted one by one, so each line of a value is a secret too.
fn secrets(orchestration: &Orchestration) -> Secrets {
    let given = orchestration.worker_variables.all().flat_map(|(name, value)| {
        let parts = [value.as_str()].into_iter().chain(value.lines());
        parts.map(|part| (name.clone(), part.to_owned()))
    });
    Secrets::new(given.collect())
}

/// `line` must be complete: half a secret would not be found.
fn redacted(line: &str, secrets: &Secrets) -> String {
    let text = secrets.redact(line).unwrap_or_else(|| line.to_owned());
    let mut parts = text.split(TOKEN_PREFIX);
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
    use crate::orchestration::WorkerVariables;

    fn log(text: &str) -> Log {
        let given = [("ANTHROPIC_API_KEY", "sk-planted-0123456789"), ("KEY", "first half\nsecond half\n")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let worker_variables = WorkerVariables::shared(given);
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

    use LogPosition::{After, Before, End};

    /// The lines of a page, and its offsets.
    fn shown(tail: &Tail, ended: bool, lines: usize, position: LogPosition) -> (String, Option<u64>, u64) {
        let page = page(tail, ended, LogQuery { lines, position });
        (page.lines.join("|"), page.before, page.after)
    }

    fn complete(text: &str) -> Tail {
        Tail { start: 0, text: text.to_owned() }
    }

    fn check(got: (String, Option<u64>, u64), lines: &str, before: Option<u64>, after: u64) {
        assert_eq!(got, (lines.to_owned(), before, after));
    }

    #[test]
    fn last_lines_are_shown_and_older_ones_follow_page_by_page() {
        let tail = complete("one\ntwo\r\n\nfour\nfive\n");
        check(shown(&tail, false, 2, End), "four|five", Some(10), 20);
        check(shown(&tail, false, 2, Before(10)), "two|", Some(4), 10);
        check(shown(&tail, false, 2, Before(4)), "one", None, 4);
        check(shown(&tail, false, 2, Before(0)), "", None, 0);
        check(shown(&tail, false, 9, End), "one|two||four|five", None, 20);
    }

    #[test]
    fn newer_lines_follow_page_by_page_until_there_are_none() {
        let tail = complete("one\ntwo\nthree\n");
        check(shown(&tail, false, 2, After(0)), "one|two", None, 8);
        check(shown(&tail, false, 2, After(8)), "three", Some(8), 14);
        check(shown(&tail, false, 2, After(14)), "", Some(14), 14);
        check(shown(&complete(""), true, 2, After(14)), "", None, 14);
        check(shown(&complete(""), false, 2, End), "", None, 0);
    }

    #[test]
    fn line_that_is_cut_off_at_the_start_is_omitted() {
        let tail = Tail { start: 100, text: "ne\ntwo\nthree\n".to_owned() };
        check(shown(&tail, false, 9, End), "two|three", None, 113);
        check(shown(&Tail { start: 100, text: "one lo".to_owned() }, false, 9, End), "", None, 100);
        check(shown(&Tail { start: 100, text: "ng line".to_owned() }, true, 9, End), "", None, 107);
    }

    #[test]
    fn offsets_older_than_the_window_continue_at_its_start() {
        let tail = Tail { start: 100, text: "ne\ntwo\nthree\n".to_owned() };
        check(shown(&tail, false, 1, After(7)), "two", None, 107);
        check(shown(&tail, false, 1, Before(7)), "", None, 7);
    }

    #[test]
    fn unfinished_line_is_shown_when_the_sandbox_has_ended() {
        let tail = complete("one\ntw");
        check(shown(&tail, false, 9, End), "one", None, 4);
        check(shown(&tail, false, 9, After(4)), "", Some(4), 4);
        check(shown(&tail, true, 9, End), "one|tw", None, 6);
        check(shown(&tail, true, 9, After(4)), "tw", Some(4), 6);
    }

    #[test]
    fn offset_inside_a_line_does_not_split_it() {
        let tail = complete("one\ntwo\n");
        check(shown(&tail, false, 9, After(2)), "two", Some(4), 8);
        check(shown(&tail, false, 9, Before(6)), "one", None, 4);
    }
}
