//! Finds the pull request of a branch with the GitHub CLI (`gh`).

use super::process;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

const GH_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of the response, which lists every check of the pull request.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

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

/// Looks up the pull request of the current branch. `None` if `gh` is missing, not logged in, or too slow.
pub(super) async fn find(gh: &Path, root: &Path) -> Option<PullRequest> {
    let mut command = Command::new(gh);
    command.args(["pr", "view", "--json", "number,url,state,statusCheckRollup"]).current_dir(root).envs([
        ("GH_PROMPT_DISABLED", "1"),
        ("GH_NO_UPDATE_NOTIFIER", "1"),
        ("NO_COLOR", "1"),
    ]);
    let run =
        process::run(command, Vec::new(), GH_TIMEOUT, |output| process::read_all(output, MAX_RESPONSE_BYTES))
            .await;
    let finished = run.ok()?;
    parse(finished.code, &finished.output, &finished.stderr)
}

fn parse(code: Option<i32>, output: &[u8], stderr: &str) -> Option<PullRequest> {
    if code != Some(0) {
        return stderr.contains("no pull requests found").then_some(PullRequest::None);
    }
    let response: Value = serde_json::from_slice(output).ok()?;
    if response["state"] == "CLOSED" {
        return Some(PullRequest::None);
    }
    let url = response["url"].as_str()?.to_owned();
    let ci_status = response["statusCheckRollup"].as_array().and_then(|checks| ci_status(checks));
    Some(PullRequest::Found(Found { number: response["number"].as_u64()?, url, ci_status }))
}

/// Overall status of all checks. Completed check runs have a conclusion; commit statuses have a state.
fn ci_status(checks: &[Value]) -> Option<&'static str> {
    let status = |check: &Value| {
        let text = |field: &str| check[field].as_str().filter(|text| !text.is_empty());
        match text("conclusion").or(text("state")) {
            Some("SUCCESS" | "NEUTRAL" | "SKIPPED") => "success",
            Some("PENDING" | "EXPECTED") | None => "pending",
            Some(_) => "failure",
        }
    };
    let statuses: Vec<&str> = checks.iter().map(status).collect();
    ["failure", "pending", "success"].into_iter().find(|status| statuses.contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_are_combined_into_one_status() {
        let run =
            |conclusion: &str| json!({"__typename": "CheckRun", "status": "X", "conclusion": conclusion});
        let status = |state: &str| json!({"__typename": "StatusContext", "state": state});
        for (checks, expected) in [
            (vec![], None),
            (vec![run("SUCCESS"), status("SUCCESS"), run("SKIPPED")], Some("success")),
            (vec![run("SUCCESS"), run("")], Some("pending")),
            (vec![run(""), run("FAILURE")], Some("failure")),
            (vec![status("ERROR"), run("SUCCESS")], Some("failure")),
            (vec![run("TIMED_OUT")], Some("failure")),
            (vec![status("PENDING")], Some("pending")),
        ] {
            assert_eq!(ci_status(&checks), expected, "{checks:?}");
        }
    }

    #[test]
    fn gh_output_is_parsed() {
        let found = |state: &str| {
            let response =
                json!({"number": 7, "url": "https://x/7", "state": state, "statusCheckRollup": []});
            parse(Some(0), response.to_string().as_bytes(), "")
        };
        let open = Found { number: 7, url: "https://x/7".to_owned(), ci_status: None };
        assert_eq!(found("OPEN"), Some(PullRequest::Found(open)));
        assert!(matches!(found("MERGED"), Some(PullRequest::Found(_))));
        assert_eq!(found("CLOSED"), Some(PullRequest::None));
        assert_eq!(parse(Some(1), b"", "no pull requests found for branch \"x\""), Some(PullRequest::None));
        assert_eq!(parse(Some(4), b"", "To get started with GitHub CLI, please run: gh auth login"), None);
        assert_eq!(parse(Some(0), b"not json", ""), None);
    }
}
