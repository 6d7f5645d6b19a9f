//! The pull request of a branch, as GitHub's `gh` sees it.

use super::process;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

/// How long `gh` may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// Longest answer that is read. Every check of the pull request is in it.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// What is known of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PullRequest {
    Found(Found),
    None,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub number: u64,
    pub url: String,
    pub ci_status: Option<&'static str>,
}

/// Asks `gh` about the branch that is checked out. Nothing if it is not there, not logged in, or too slow.
pub(super) async fn find(gh: &Path, root: &Path) -> Option<PullRequest> {
    let mut command = Command::new(gh);
    command.args(["pr", "view", "--json", "number,url,state,statusCheckRollup"]).current_dir(root).envs([
        ("GH_PROMPT_DISABLED", "1"),
        ("GH_NO_UPDATE_NOTIFIER", "1"),
        ("NO_COLOR", "1"),
    ]);
    let run = process::run(command, Vec::new(), DEADLINE, |output| process::all(output, ANSWER_BYTES)).await;
    let finished = run.ok()?;
    read(finished.code, &finished.output, &finished.errors)
}

fn read(code: Option<i32>, output: &[u8], errors: &str) -> Option<PullRequest> {
    if code != Some(0) {
        return errors.contains("no pull requests found").then_some(PullRequest::None);
    }
    let answer: Value = serde_json::from_slice(output).ok()?;
    if answer["state"] == "CLOSED" {
        return Some(PullRequest::None);
    }
    let url = answer["url"].as_str()?.to_owned();
    let ci_status = answer["statusCheckRollup"].as_array().and_then(|checks| ci_status(checks));
    Some(PullRequest::Found(Found { number: answer["number"].as_u64()?, url, ci_status }))
}

/// All checks in one word. Check runs have a conclusion once they are completed, older statuses have a state.
fn ci_status(checks: &[Value]) -> Option<&'static str> {
    let word = |check: &Value| {
        let text = |field: &str| check[field].as_str().filter(|text| !text.is_empty());
        match text("conclusion").or(text("state")) {
            Some("SUCCESS" | "NEUTRAL" | "SKIPPED") => "success",
            Some("PENDING" | "EXPECTED") | None => "pending",
            Some(_) => "failure",
        }
    };
    let words: Vec<&str> = checks.iter().map(word).collect();
    ["failure", "pending", "success"].into_iter().find(|word| words.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_are_one_word() {
        let run =
            |conclusion: &str| json!({"__typename": "CheckRun", "status": "X", "conclusion": conclusion});
        let status = |state: &str| json!({"__typename": "StatusContext", "state": state});
        for (checks, word) in [
            (vec![], None),
            (vec![run("SUCCESS"), status("SUCCESS"), run("SKIPPED")], Some("success")),
            (vec![run("SUCCESS"), run("")], Some("pending")),
            (vec![run(""), run("FAILURE")], Some("failure")),
            (vec![status("ERROR"), run("SUCCESS")], Some("failure")),
            (vec![run("TIMED_OUT")], Some("failure")),
            (vec![status("PENDING")], Some("pending")),
        ] {
            assert_eq!(ci_status(&checks), word, "{checks:?}");
        }
    }

    #[test]
    fn what_gh_says_is_understood_and_what_it_does_not_say_is_unknown() {
        let found = |state: &str| {
            let answer = json!({"number": 7, "url": "https://x/7", "state": state, "statusCheckRollup": []});
            read(Some(0), answer.to_string().as_bytes(), "")
        };
        let open = Found { number: 7, url: "https://x/7".to_owned(), ci_status: None };
        assert_eq!(found("OPEN"), Some(PullRequest::Found(open)));
        assert!(matches!(found("MERGED"), Some(PullRequest::Found(_))));
        assert_eq!(found("CLOSED"), Some(PullRequest::None));
        assert_eq!(read(Some(1), b"", "no pull requests found for branch \"x\""), Some(PullRequest::None));
        assert_eq!(read(Some(4), b"", "To get started with GitHub CLI, please run: gh auth login"), None);
        assert_eq!(read(Some(0), b"not json", ""), None);
    }
}
