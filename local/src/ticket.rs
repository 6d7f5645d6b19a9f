//! `sunaba ticket`: has something done, and shows how it goes.

mod words;

use crate::config::commands::{Address, Ticket};
use crate::tasks::{answered, plane, text};
use anyhow::{Context, bail};
use app::IdSource;
use app::ids::RandomIds;
use client::{Follow, Followed, Follower, Plane, Refused, SILENCE};
use domain::SandboxId;
use serde_json::{Value, json};
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;
use tokio::time::{Instant, sleep_until, timeout};

/// How often the task is looked at while it is watched. What its agent does comes by itself.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an agent's last words may take when its task is over.
const LAST_WORDS: Duration = Duration::from_millis(700);
/// A title is at most so long; the whole of it is the description.
const TITLE_CHARS: usize = 100;
/// As a shell says it.
const INTERRUPTED: u8 = 130;

/// Posts the ticket; with `--watch` stays until its task is over.
pub async fn run(options: &Ticket) -> anyhow::Result<ExitCode> {
    let body = body(options)?;
    let plane = plane(&options.address)?;
    let ticket = answered(&options.address, plane.post("/api/v1/tickets", &body).await)?;
    let id = text(&ticket, "id").to_owned();
    print_line(&format!("ticket     {id} {}", text(&ticket, "title")));
    if !options.watch {
        return Ok(ExitCode::SUCCESS);
    }
    if text(&ticket, "approval_status") == "pending_review" {
        print_line("waiting    for somebody to approve of it");
    }
    tokio::select! {
        ended = watch(&options.address, &plane, &id) => ended,
        pressed = tokio::signal::ctrl_c() => {
            pressed.context("cannot wait for Ctrl-C")?;
            print_line(&format!("It goes on. `sunaba tasks` shows how far it is; {}/ shows what the agent does.", options.address.plane()));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

fn body(options: &Ticket) -> anyhow::Result<Value> {
    let description = match &options.text {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read what is to be done")?;
            text
        }
    };
    let description = description.trim();
    if description.is_empty() {
        bail!("say what is to be done: sunaba ticket \"Fix the login\"");
    }
    let mut title: String =
        description.lines().next().unwrap_or_default().chars().take(TITLE_CHARS).collect();
    if title.len() < description.len() {
        title.push('…');
    }
    // A name of our own: sent again under the same one, it is the same ticket.
    let mut body = json!({
        "ticket_id": RandomIds.ticket(), "title": title, "description": description,
        "priority": options.priority.to_uppercase(), "workflow_mode": "quick", "check_duplicates": false,
    });
    let given = [
        ("agent", &options.agent),
        ("model", &options.model),
        ("repository", &options.repo),
        ("project_id", &options.project),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    Ok(body)
}

/// Tells each step until the ticket's task is over.
async fn watch(address: &Address, plane: &Plane, ticket: &str) -> anyhow::Result<ExitCode> {
    let (mut status, mut following): (String, Option<Watched>) = (String::new(), None);
    let mut look_at = Instant::now();
    loop {
        let heard = async {
            match &mut following {
                Some(watched) => watched.follower.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = heard => tell(&event),
            () = sleep_until(look_at) => {
                look_at = Instant::now() + LOOK_EVERY;
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
                let over = ["completed", "failed", "cancelled"].contains(&status.as_str());
                match task["sandbox_id"].as_str() {
                    Some(sandbox) if following.as_ref().is_none_or(|watched| watched.sandbox != sandbox) => {
                        print_line(&format!("sandbox    {sandbox}"));
                        following = Some(Watched::new(address, sandbox)?);
                    }
                    _ => {}
                }
                if over {
                    last_words(following.as_mut()).await;
                    let task = read(plane, &format!("/api/v1/tasks/{}", text(task, "id"))).await?;
                    return Ok(ended(&task, &status));
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
            silence: SILENCE,
        };
        Ok(Self { sandbox: sandbox.to_owned(), follower: Follower::new(follow) })
    }
}

/// Reads something. A plane that is away is waited for.
async fn read(plane: &Plane, path: &str) -> anyhow::Result<Value> {
    let answer = plane.get_in_time(path).await;
    answer.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))
}

/// What an agent said last may come after the end of its task.
async fn last_words(following: Option<&mut Watched>) {
    let Some(watched) = following else { return };
    while let Ok(event) = timeout(LAST_WORDS, watched.follower.next()).await {
        tell(&event);
    }
}

fn tell(event: &Followed) {
    if let Some(line) = words::of(&event.event_type, &event.data) {
        print_line(&line);
    }
}

fn ended(task: &Value, status: &str) -> ExitCode {
    match status {
        "completed" => ExitCode::SUCCESS,
        _ => {
            print_line(&format!(
                "{status:<10} {}",
                task["error_message"].as_str().unwrap_or("nobody said why")
            ));
            ExitCode::FAILURE
        }
    }
}
