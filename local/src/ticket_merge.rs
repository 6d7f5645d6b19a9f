//! `sunaba merge <ticket>`: merges all finished branches of a ticket, and shows the progress until the end.

use crate::branches::{SHORT_COMMIT, print_untrusted};
use crate::config::commands::Merge;
use crate::tasks::{plane, response_body, text};
use domain::TicketId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;

const POLL: Duration = Duration::from_secs(2);

/// Success if every branch was merged. Stopping the command does not stop the merge.
pub async fn run(options: &Merge) -> anyhow::Result<ExitCode> {
    let ticket = TicketId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    let body = json!({
        "method": options.method, "delete_branch": !options.keep_branch, "resolve_conflicts": options.resolve,
    });
    let response = plane.post(&format!("/api/v1/tickets/{ticket}/merge"), &body).await;
    let mut found = response_body(&options.address, response)?;
    let mut shown = BTreeMap::new();
    loop {
        let branches = found["merge"]["branches"].as_array().map_or(&[][..], Vec::as_slice);
        for branch in branches {
            let line = describe(branch);
            if shown.insert(text(branch, "task_id").to_owned(), line.clone()).as_ref() != Some(&line) {
                print_untrusted(&line);
            }
        }
        if found["merge"]["state"] != "running" {
            let merged = branches.iter().filter(|branch| branch["state"] == "merged").count();
            print_line(&format!("Merged {merged} of {}.", branches.len()));
            let is_complete = merged == branches.len();
            return Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        tokio::time::sleep(POLL).await;
        found = response_body(&options.address, plane.get(&format!("/api/v1/tickets/{ticket}")).await)?;
    }
}

/// `merged     fix/1a2b3c4d-login as 0123456789`.
fn describe(branch: &Value) -> String {
    let commit = branch["commit"].as_str().map(|commit| {
        let short: String = commit.chars().take(SHORT_COMMIT).collect();
        format!(" as {short}")
    });
    let reason = branch["reason"].as_str().map(|reason| format!(": {reason}"));
    let more = commit.or(reason).unwrap_or_default();
    format!("{:<10} {}{more}", text(branch, "state"), text(branch, "branch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_branch_is_one_line() {
        let merged = json!({"state": "merged", "branch": "fix/a", "commit": "0123456789abcdef"});
        assert_eq!(describe(&merged), "merged     fix/a as 0123456789");
        let skipped = json!({"state": "skipped", "branch": "fix/b", "reason": "Checks fail: build."});
        assert_eq!(describe(&skipped), "skipped    fix/b: Checks fail: build.");
        assert_eq!(describe(&json!({"state": "waiting", "branch": "fix/c"})), "waiting    fix/c");
    }
}
