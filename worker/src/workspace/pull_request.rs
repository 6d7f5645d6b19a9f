//! Finds the pull request of a branch with the GitHub CLI (`gh`).

use super::process;
use super::validation::InspectOptions;
use serde_json::Value;
use std::ffi::OsString;
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

/// Looks up the pull request of a branch. `None` if `gh` is missing, not logged in, or too slow.
///
/// With a token, `gh` sees nothing that the agent can change: neither the workspace, whose configuration could make git
/// run programs, nor the home directory with the configuration of `gh`.
pub(super) async fn find(options: &InspectOptions<'_>, branch: &str) -> Option<PullRequest> {
    let token = options.repository.and_then(|repository| Some((repository, repository.token.as_ref()?)));
    let mut arguments = vec!["pr", "view"];
    let launcher = match &token {
        Some((repository, _)) => {
            arguments.extend([branch, "--repo", repository.url.as_str()]);
            options.launcher.with_only_writable([])
        }
        None => options.launcher.clone(),
    };
    arguments.extend(["--json", "number,url,state,statusCheckRollup"]);
    let directory = if token.is_some() { Path::new("/") } else { options.root };
    let arguments = arguments.into_iter().map(OsString::from);
    let mut variables = vec![("GH_PROMPT_DISABLED", "1"), ("GH_NO_UPDATE_NOTIFIER", "1"), ("NO_COLOR", "1")];
    if let Some((_, token)) = &token {
        variables.extend([("GH_TOKEN", token.reveal()), ("HOME", "/nonexistent")]);
    }
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let launcher = launcher.with_variables(variables);
    let command = Command::from(launcher.command(options.gh.as_os_str(), arguments, directory).ok()?);
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
