//! `sunaba ticket`: creates a ticket and prints its progress.

mod format;

use crate::branches::SHORT_COMMIT;
use crate::config::commands::{Address, Ticket};
use crate::tasks::{plane, response_body, text};
use anyhow::{Context, bail};
use app::IdSource;
use app::ids::RandomIds;
use client::{Follow, Followed, Follower, IDLE_TIMEOUT, Plane, Refused};
use domain::SandboxId;
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;
use tokio::time::{Instant, sleep_until, timeout};

/// How often the task is polled. Events of its agent are pushed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait for further events after the task has finished.
const FINAL_EVENTS_TIMEOUT: Duration = Duration::from_millis(700);
/// Maximum length of a title. The description has the full text.
const MAX_TITLE_CHARS: usize = 100;
/// 128 + SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// With `--watch`, waits until the task has finished.
pub async fn run(options: &Ticket) -> anyhow::Result<ExitCode> {
    let body = body(options)?;
    let plane = plane(&options.address)?;
    let ticket = response_body(&options.address, plane.post("/api/v1/tickets", &body).await)?;
    let id = text(&ticket, "id").to_owned();
    print_line(&format!("ticket     {id} {}", text(&ticket, "title")));
    if !options.watch {
        return Ok(ExitCode::SUCCESS);
    }
    if text(&ticket, "approval_status") == "pending_review" {
        print_line("waiting    for approval");
    }
    tokio::select! {
        result = watch(&options.address, &plane, &id) => result,
        pressed = tokio::signal::ctrl_c() => {
            pressed.context("cannot wait for Ctrl-C")?;
            print_line(&format!("Stopped watching; the ticket continues. Check it with `sunaba tasks` or at {}/.", options.address.plane()));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

fn body(options: &Ticket) -> anyhow::Result<Value> {
    let description = match &options.text {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the ticket from standard input")?;
            text
        }
    };
    let description = description.trim();
    if description.is_empty() {
        bail!("the ticket is empty; describe it, for example: sunaba ticket \"Fix the login\"");
    }
    let mut title: String =
        description.lines().next().unwrap_or_default().chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < description.len() {
        title.push('…');
    }
    // A client-generated id makes retries idempotent.
    let mut body = json!({
        "ticket_id": RandomIds.ticket(), "title": title, "description": description,
        "priority": options.priority.to_uppercase(), "workflow_mode": "quick", "check_duplicates": false,
    });
    let repository = options.repo.as_deref().map(repository).transpose()?;
    let optional = [
        ("agent", &options.agent),
        ("model", &options.model),
        ("repository", &repository),
        ("base_branch", &options.base),
        ("project_id", &options.project),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    Ok(body)
}

/// The address of a repository. A directory is named by its full path, since the plane runs in another one. What looks like
/// `owner/name` is on GitHub, unless it begins with a dot.
fn repository(option: &str) -> anyhow::Result<String> {
    let is_path = option.starts_with(['.', '/', '~']) && !option.contains("://");
    if !is_path {
        return Ok(option.to_owned());
    }
    let path = Path::new(option).canonicalize();
    let path = path.with_context(|| format!("cannot open the repository {option}"))?;
    let path = path.to_str().context("the path of the repository is not UTF-8")?;
    Ok(path.to_owned())
}

/// Prints the progress until the ticket's task has finished.
async fn watch(address: &Address, plane: &Plane, ticket: &str) -> anyhow::Result<ExitCode> {
    let (mut status, mut following): (String, Option<Watched>) = (String::new(), None);
    let mut poll_at = Instant::now();
    loop {
        let next_event = async {
            match &mut following {
                Some(watched) => watched.follower.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = next_event => print_event(&event),
            () = sleep_until(poll_at) => {
                poll_at = Instant::now() + POLL_INTERVAL;
                let ticket = read(plane, &format!("/api/v1/tickets/{ticket}")).await?;
                let Some(task) = ticket["tasks"].as_array().and_then(|tasks| tasks.first()) else {
                    if let "rejected" | "timed_out" = text(&ticket, "approval_status") {
                        print_line(&format!("{:<10} {}", text(&ticket, "approval_status"), text(&ticket, "rejection_reason")));
                        return Ok(ExitCode::FAILURE);
                    }
                    continue;
                };
                if text(task, "status") != status {
                    text(task, "status").clone_into(&mut status);
                    print_line(&format!("task       {} is {status}", text(task, "id")));
                }
                let finished = ["completed", "failed", "cancelled"].contains(&status.as_str());
                match task["sandbox_id"].as_str() {
                    Some(sandbox) if following.as_ref().is_none_or(|watched| watched.sandbox != sandbox) => {
                        print_line(&format!("sandbox    {sandbox}"));
                        following = Some(Watched::new(address, sandbox)?);
                    }
                    _ => {}
                }
                if finished {
                    print_final_events(following.as_mut()).await;
                    let task = read(plane, &format!("/api/v1/tasks/{}", text(task, "id"))).await?;
                    print_branch(&task);
                    return Ok(exit_code(&task, &status));
                }
            }
        }
    }
}

struct Watched {
    sandbox: String,
    follower: Follower,
}

impl Watched {
    fn new(address: &Address, sandbox: &str) -> anyhow::Result<Self> {
        let follow = Follow {
            plane: address.plane().to_owned(),
            sockets: address.sockets.clone(),
            sandbox: SandboxId::parse(sandbox)?,
            token: address.token()?,
            after_seq: 0,
            idle_timeout: IDLE_TIMEOUT,
        };
        Ok(Self { sandbox: sandbox.to_owned(), follower: Follower::new(follow) })
    }
}

/// Retries while the plane is unreachable.
async fn read(plane: &Plane, path: &str) -> anyhow::Result<Value> {
    let response = plane.get_with_retries(path).await;
    response.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))
}

/// The last events of an agent may arrive after its task has finished.
async fn print_final_events(following: Option<&mut Watched>) {
    let Some(watched) = following else { return };
    while let Ok(event) = timeout(FINAL_EVENTS_TIMEOUT, watched.follower.next()).await {
        print_event(&event);
    }
}

fn print_event(event: &Followed) {
    if let Some(line) = format::line(&event.event_type, &event.data) {
        print_line(&line);
    }
}

/// Prints where the work is and what to do with it.
fn print_branch(task: &Value) {
    for line in describe_branch(task) {
        print_line(&line);
    }
}

fn describe_branch(task: &Value) -> Vec<String> {
    let (Some(branch), Some(commit)) = (task["branch"]["name"].as_str(), task["result"]["commit"].as_str())
    else {
        return Vec::new();
    };
    let (pull, base, id) = (&task["branch"]["pull_request"], text(&task["branch"], "base"), text(task, "id"));
    let short: String = commit.chars().take(SHORT_COMMIT).collect();
    let mut lines =
        vec![format!("branch     {branch} ({short}) → {base}"), format!("changes    sunaba diff {id}")];
    if pull["number"].is_u64() && pull["merged_at"].is_null() {
        let url = pull["url"].as_str().filter(|url| url.starts_with("https://"));
        let url = url.map(|url| format!(", {url}")).unwrap_or_default();
        lines.push(format!("merge      sunaba merge {id}  (pull request #{}{url})", pull["number"]));
    }
    lines
}

fn exit_code(task: &Value, status: &str) -> ExitCode {
    match status {
        "completed" => ExitCode::SUCCESS,
        _ => {
            print_line(&format!(
                "{status:<10} {}",
                task["error_message"].as_str().unwrap_or("no reason given")
            ));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_is_described_with_the_next_commands() {
        let mut task = json!({
            "id": "task-1",
            "branch": {"name": "fix/1-login", "base": "main", "pull_request": null},
            "result": {"commit": null},
        });
        assert!(describe_branch(&task).is_empty(), "nothing was pushed");
        task["result"]["commit"] = json!("0123456789abcdef");
        let branch = "branch     fix/1-login (0123456789) → main";
        assert_eq!(describe_branch(&task), [branch, "changes    sunaba diff task-1"]);
        let url = "https://host.example/acme/shop/pull/7";
        task["branch"]["pull_request"] = json!({"number": 7, "url": url, "merged_at": null});
        let merge = format!("merge      sunaba merge task-1  (pull request #7, {url})");
        assert_eq!(describe_branch(&task)[2], merge);
        task["branch"]["pull_request"]["merged_at"] = json!("2026-11-20T00:00:00Z");
        assert_eq!(describe_branch(&task).len(), 2, "it is merged already");
    }
}
