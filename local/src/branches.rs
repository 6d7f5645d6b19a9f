//! `sunaba diff`, `sunaba pr` and `sunaba merge`.

use crate::config::commands::{Diff, Merge, PullRequest};
use crate::tasks::{plane, response_body, text};
use client::Attempt;
use domain::TaskId;
use serde_json::{Value, json};
use std::process::ExitCode;
use terminal::{print_error, print_line};

/// Prints what an agent wrote. Control characters could change the terminal or hide text, so they are made visible.
pub(crate) fn print_untrusted(text: &str) {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    print_line(&text.chars().map(shown).collect::<String>());
}

/// Number of characters of a commit that are shown.
pub(crate) const SHORT_COMMIT: usize = 10;

/// Prints the diff in the form of git, so that it can be piped into other tools.
pub async fn diff(options: &Diff) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    let diff = response_body(&options.address, plane.get(&format!("/api/v1/tasks/{task}/diff")).await)?;
    let files = diff["files"].as_array().map_or(&[][..], Vec::as_slice);
    if files.is_empty() {
        print_error(&format!("{} has no changes.", text(&diff, "branch")));
    }
    for file in files {
        let line = if options.stat { stat(file) } else { patch(file) };
        print_untrusted(line.trim_end_matches('\n'));
    }
    if diff["files_truncated"] == true {
        print_error(&format!(
            "There are more files: fetch the branch {} to see them.",
            text(&diff, "branch")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn stat(file: &Value) -> String {
    format!(
        "{:>6} {:>6}  {}",
        format!("+{}", file["additions"]),
        format!("-{}", file["deletions"]),
        text(file, "path")
    )
}

/// One file as git prints it.
fn patch(file: &Value) -> String {
    let path = text(file, "path");
    let previous = file["previous_path"].as_str().unwrap_or(path);
    let mut lines = vec![format!("diff --git a/{previous} b/{path}")];
    if previous != path {
        lines.extend([format!("rename from {previous}"), format!("rename to {path}")]);
    }
    let (old, new) = match text(file, "change_type") {
        "created" => ("/dev/null".to_owned(), format!("b/{path}")),
        "deleted" => (format!("a/{previous}"), "/dev/null".to_owned()),
        _ => (format!("a/{previous}"), format!("b/{path}")),
    };
    match file["diff"].as_str() {
        Some(hunks) if !hunks.is_empty() => {
            lines.extend([format!("--- {old}"), format!("+++ {new}"), hunks.to_owned()]);
        }
        Some(_) => {}
        None => lines.push("(binary, or too large to show)".to_owned()),
    }
    if file["diff_truncated"] == true {
        lines.push("(the rest of this file is too large to show)".to_owned());
    }
    lines.join("\n")
}

pub async fn pull_request(options: &PullRequest) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    let path = format!("/api/v1/tasks/{task}/pull-request");
    if options.go_on {
        let rounds = format!("/api/v1/tasks/{task}/feedback-rounds");
        response_body(&options.address, plane.post(&rounds, &json!({})).await)?;
    }
    let response = match options.open {
        true => plane.post(&path, &json!({})).await,
        false => plane.get(&path).await,
    };
    for line in describe(&response_body(&options.address, response)?) {
        print_untrusted(&line);
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(found: &Value) -> Vec<String> {
    let row = |name: &str, value: &str| format!("{name:<12} {value}");
    let commit: String = found["commit"].as_str().unwrap_or("deleted").chars().take(SHORT_COMMIT).collect();
    let mut lines = vec![
        row("repository", text(found, "repository")),
        row("branch", &format!("{} ({commit}) → {}", text(found, "branch"), text(found, "base"))),
    ];
    let Some(number) = found["number"].as_u64() else {
        lines.push(row("pull request", "none yet; open one with --open"));
        return lines;
    };
    let mergeable = match (text(found, "state"), found["mergeable"].as_bool()) {
        ("open", Some(true)) => ", no conflicts",
        ("open", Some(false)) => ", conflicts with the base",
        _ => "",
    };
    lines.push(row("pull request", &format!("#{number}, {}{mergeable}", text(found, "state"))));
    lines.push(row("url", text(found, "url")));
    lines.push(row("checks", found["ci_status"].as_str().unwrap_or("none")));
    for check in found["checks"].as_array().into_iter().flatten() {
        lines.push(row("", &format!("{:<8} {}", text(check, "state"), text(check, "name"))));
    }
    lines.extend(describe_feedback(&found["feedback"]));
    lines
}

/// The rounds of feedback, and what an agent or a person has to do.
fn describe_feedback(feedback: &Value) -> Vec<String> {
    let list = |name: &str| feedback[name].as_array().map_or(&[][..], Vec::as_slice);
    let (in_progress, left) = (list("in_progress"), list("left_to_person"));
    let rounds = feedback["rounds"].as_u64().unwrap_or_default();
    if rounds == 0 && left.is_empty() {
        return Vec::new();
    }
    let state = match (in_progress.is_empty(), left.is_empty()) {
        (false, _) => "; the agent works on",
        (true, false) => "; left to you (continue with --continue)",
        (true, true) => "",
    };
    let mut lines = vec![format!("{:<12} {rounds}{state}", "rounds")];
    let remarks = if in_progress.is_empty() { left } else { in_progress };
    lines.extend(remarks.iter().map(describe_remark));
    lines
}

fn describe_remark(remark: &Value) -> String {
    let place = match (remark["path"].as_str(), remark["line"].as_u64()) {
        (Some(path), Some(line)) => format!("{path}:{line} "),
        (Some(path), None) => format!("{path} "),
        (None, _) => remark["check"].as_str().map(|check| format!("check {check} ")).unwrap_or_default(),
    };
    let author = remark["author"].as_str().map(|author| format!("{author}: ")).unwrap_or_default();
    let said = text(remark, "text").lines().next().unwrap_or_default();
    format!("{:<12} {place}{author}{said}", "")
}

pub async fn merge(options: &Merge) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    let mut body = json!({"method": options.method, "delete_branch": !options.keep_branch});
    if let Some(commit) = &options.commit {
        body["commit"] = json!(commit);
    }
    let response = plane.post(&format!("/api/v1/tasks/{task}/merge"), &body).await;
    if let Attempt::Refused(problem) = &response
        && problem.status == 404
        && options.commit.is_none()
    {
        return crate::ticket_merge::run(options).await;
    }
    let merged = response_body(&options.address, response)?;
    let commit: String = text(&merged, "commit").chars().take(SHORT_COMMIT).collect();
    let branch = if merged["branch_deleted"] == true { " and deleted its branch" } else { "" };
    print_line(&format!("Merged #{} into {} as {commit}{branch}.", merged["number"], text(&merged, "base")));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_printed_as_git_prints_it() {
        let file = json!({
            "path": "b.txt", "previous_path": "a.txt", "change_type": "renamed", "additions": 1, "deletions": 0,
            "diff": "@@ -1 +1,2 @@\n a\n+b\n", "diff_truncated": false,
        });
        let expected = "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1 +1,2 @@\n a\n+b\n";
        assert_eq!(patch(&file), expected);
        assert_eq!(stat(&file), "    +1     -0  b.txt");
        let binary = json!({"path": "x.png", "change_type": "created", "diff": null});
        assert_eq!(patch(&binary), "diff --git a/x.png b/x.png\n(binary, or too large to show)");
    }

    #[test]
    fn pull_request_is_described_with_its_checks() {
        let found = json!({
            "repository": "acme/shop", "branch": "fix/1-login", "base": "main", "commit": "0123456789abcdef",
            "number": 7, "url": "https://git.example/7", "state": "open", "mergeable": false, "ci_status": "failure",
            "checks": [{"name": "build", "state": "failure"}],
            "feedback": {"rounds": 0, "in_progress": [], "left_to_person": []},
        });
        let lines = describe(&found);
        assert_eq!(lines[1], "branch       fix/1-login (0123456789) → main");
        assert_eq!(lines[2], "pull request #7, open, conflicts with the base");
        assert_eq!(lines.last().unwrap().trim(), "failure  build");
        let mut found = found;
        let remark = json!({"kind": "thread", "path": "src/a.rs", "line": 7, "author": "ada", "text": "Why?\nReally."});
        found["feedback"] = json!({"rounds": 2, "in_progress": [remark], "left_to_person": []});
        let lines = describe(&found);
        assert_eq!(lines[lines.len() - 2], "rounds       2; the agent works on");
        assert_eq!(lines.last().unwrap().trim(), "src/a.rs:7 ada: Why?");
        let check = json!({"kind": "check", "check": "build", "text": ""});
        found["feedback"] = json!({"rounds": 3, "in_progress": [], "left_to_person": [check]});
        let lines = describe(&found);
        assert!(lines[lines.len() - 2].contains("left to you"), "{lines:?}");
        assert_eq!(lines.last().unwrap().trim(), "check build");
        let none = json!({"repository": "a", "branch": "b", "base": "main", "commit": null, "number": null});
        assert_eq!(describe(&none)[2], "pull request none yet; open one with --open");
    }
}
