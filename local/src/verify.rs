//! `sunaba verify`: checks that the log of a sandbox was not changed after it was stored.

use crate::config::commands::Verify;
use crate::messages::decode;
use crate::tasks::{plane, response_body};
use anyhow::Context;
use contract::sandboxes::LogVerification;
use domain::{LogHash, SandboxId};
use std::io::IsTerminal;
use std::process::ExitCode;
use terminal::{print_error, print_line};

/// A hash of the log that is known from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checkpoint {
    seq: u64,
    hash: LogHash,
}

/// Fails if the log was changed, and if events have no hash: who can change the log can also remove its hashes.
pub async fn run(options: &Verify) -> anyhow::Result<ExitCode> {
    let sandbox = SandboxId::parse(&options.sandbox)?;
    let checkpoint = options.checkpoint.as_deref().map(parse_checkpoint).transpose()?;
    if let Some(Checkpoint { seq, hash }) = checkpoint {
        let at = verify(options, &sandbox, Some(seq)).await?;
        let reaches = at.problem.is_none() && at.last_seq >= seq;
        if reaches && (at.verified_seq, at.log_hash) != (seq, Some(hash)) {
            print_line(&format!("The log of {sandbox} was changed: event {seq} has another hash."));
            return Ok(ExitCode::FAILURE);
        }
        if at.last_seq < seq {
            let last = at.last_seq;
            print_line(&format!(
                "The log of {sandbox} was changed: it ends at event {last}, before event {seq}."
            ));
            return Ok(ExitCode::FAILURE);
        }
    }
    let verified = verify(options, &sandbox, None).await?;
    if let Some(problem) = verified.problem {
        print_line(&format!("The log of {sandbox} was changed: {}", problem.reason));
        return Ok(ExitCode::FAILURE);
    }
    print_line(&summary(&verified));
    let accepted = verified.unhashed_events == 0 || options.allow_unhashed;
    if !accepted {
        print_error("Use --allow-unhashed if an earlier version, without hashes, stored these events.");
    }
    Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All parts of the log, up to an event or to its end.
async fn verify(
    options: &Verify,
    sandbox: &SandboxId,
    to_seq: Option<u64>,
) -> anyhow::Result<LogVerification> {
    let plane = plane(&options.address)?;
    let to_seq = to_seq.map(|seq| format!("&to_seq={seq}")).unwrap_or_default();
    let (mut after, mut unhashed) = (0, 0);
    loop {
        let path = format!("/api/v1/sandboxes/{sandbox}/verification?after_seq={after}{to_seq}");
        let page: LogVerification = decode(response_body(&options.address, plane.get(&path).await)?)?;
        unhashed += page.unhashed_events;
        if !page.has_more {
            return Ok(LogVerification { unhashed_events: unhashed, ..page });
        }
        after = page.verified_seq;
        if std::io::stderr().is_terminal() {
            print_error(&format!("Verified {after} of {} events", page.last_seq));
        }
    }
}

fn summary(verified: &LogVerification) -> String {
    let LogVerification { sandbox_id, last_seq, unhashed_events, .. } = verified;
    let events = |count: u64| if count == 1 { "1 event".to_owned() } else { format!("{count} events") };
    let unhashed = match unhashed_events {
        0 => None,
        count if count == last_seq => Some("No event has a hash; none is verified.".to_owned()),
        1 => Some("The first event has no hash and is not verified.".to_owned()),
        count => Some(format!("The first {count} events have no hash and are not verified.")),
    };
    match (verified.log_hash, unhashed) {
        (Some(hash), None) => {
            format!("The log of {sandbox_id} is unchanged: {}, hash {last_seq}:{hash}.", events(*last_seq))
        }
        (Some(hash), Some(unhashed)) => {
            let verified = events(last_seq.saturating_sub(*unhashed_events));
            format!(
                "The log of {sandbox_id} ends with {verified} that did not change, hash {last_seq}:{hash}. {unhashed}"
            )
        }
        (None, unhashed) => {
            let unhashed = unhashed.map(|text| format!(" {text}")).unwrap_or_default();
            format!("The log of {sandbox_id} has {}.{unhashed}", events(*last_seq))
        }
    }
}

fn parse_checkpoint(text: &str) -> anyhow::Result<Checkpoint> {
    let parsed = text.split_once(':').and_then(|(seq, hash)| {
        let seq = seq.parse().ok().filter(|seq| *seq > 0)?;
        Some(Checkpoint { seq, hash: LogHash::parse(hash).ok()? })
    });
    parsed.context(
        "--checkpoint must be a sequence number, a colon and 64 hexadecimal digits, such as 12:9f86…",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(log_hash: Option<LogHash>, unhashed_events: u64) -> LogVerification {
        LogVerification {
            sandbox_id: SandboxId::parse("s-1").unwrap(),
            last_seq: 12,
            verified_seq: 12,
            log_hash,
            unhashed_events,
            has_more: false,
            problem: None,
        }
    }

    #[test]
    fn summary_states_what_is_not_verified() {
        let hash = format!("hash 12:{}.", "0".repeat(64));
        let all = summary(&verified(Some(LogHash::EMPTY), 0));
        assert_eq!(all, format!("The log of s-1 is unchanged: 12 events, {hash}"));
        let some = summary(&verified(Some(LogHash::EMPTY), 3));
        let not_verified = "The first 3 events have no hash and are not verified.";
        assert_eq!(
            some,
            format!("The log of s-1 ends with 9 events that did not change, {hash} {not_verified}")
        );
        let none = "The log of s-1 has 12 events. No event has a hash; none is verified.";
        assert_eq!(summary(&verified(None, 12)), none);
    }

    #[test]
    fn malformed_checkpoint_is_refused() {
        let zeros = "0".repeat(64);
        let checkpoint = Checkpoint { seq: 7, hash: LogHash::EMPTY };
        assert_eq!(parse_checkpoint(&format!("7:{zeros}")).unwrap(), checkpoint);
        for text in ["", "7", "7:", &format!("0:{zeros}"), &format!("x:{zeros}"), "7:00"] {
            assert!(parse_checkpoint(text).unwrap_err().to_string().starts_with("--checkpoint"), "{text:?}");
        }
    }
}
