//! Putting a worker together, and running it.

use crate::completion::Plan;
use crate::config::Config;
use crate::event::Event;
use crate::heartbeat::{self, Vitals};
use crate::inbox::{self, Inbox};
use crate::outbox::{self, Outbox, Secrets};
use crate::preview;
use crate::session::{Crew, Outside, Parts, Session};
use crate::state::{Kept, State};
use crate::transcript;
use crate::workspace::{self, snapshot::Snapshots};
use anyhow::Context;
use client::{Hang, Once, Transcripts};
use domain::SessionId;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// How long the plane may take to answer a request before it is repeated.
const DEADLINE: Duration = Duration::from_secs(15);

/// Runs a worker until `stop` says so. `program` is how this program is called, for the parts of it that others start.
pub async fn run(
    mut config: Config,
    program: Vec<String>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&config.cwd).with_context(|| format!("cannot make {}", config.cwd.display()))?;
    // The agent's own record is filed under the real path.
    config.cwd = config.cwd.canonicalize().with_context(|| format!("cannot use {}", config.cwd.display()))?;
    let outbox = open_outbox(&config)?;
    let kept = Kept::in_folder(&config.state_dir);
    let mut state = kept.load().context("what an earlier run has kept cannot be read")?;
    // From the first second: whoever watches sees that it lives, and what is said meanwhile is not lost.
    let (vitals, seen) = watch::channel(Vitals::default());
    let beating = tokio::spawn(heartbeat::run(once(&config), outbox.clone(), seen, config.heartbeat));
    let given = state.pending.iter().map(|pending| pending.message_id.clone());
    let inbox = Inbox::open(inbox_settings(&config, &outbox), given);

    let settings = workspace::Settings::new(&config.cwd, &config.state_dir, program.clone());
    let mut tell = |event| outbox.tell(event);
    let ready = match workspace::prepare(config.repository.as_ref(), &settings, &mut tell).await {
        Ok(ready) => ready,
        Err(why) => return Ok(give_up(&outbox, "workspace", &why.to_string()).await),
    };
    let (inherited, fork_of) = match inherit(&config, &mut state, &outbox).await {
        Ok(inherited) => inherited,
        Err(why) => return Ok(give_up(&outbox, "resume", &format!("{why:#}")).await),
    };
    let mark = (preview::MARK.to_owned(), Uuid::new_v4().to_string());
    let crew = Crew {
        program,
        env: ready.variables.iter().cloned().chain([mark]).collect(),
        inherited,
        fork_of,
        sandbox: config.sandbox.to_string(),
    };
    let requirements = &config.requirements;
    let validates = requirements.clean
        || requirements.pushed
        || requirements.pull_request
        || requirements.tests.is_some();
    let plan = Plan { continuous: config.continuous.clone(), validates };
    let snapshots = Snapshots::begin(&config.cwd, &config.state_dir);
    let fate = outbox.fate();
    let session = Session::new(Parts { config, crew, outbox, kept, state, plan, vitals, snapshots });
    let code = session.run(Outside { inbox, fate, stop }).await;
    beating.abort();
    // git may ask for its credentials until the agent is gone.
    drop(ready);
    Ok(code)
}

/// The way to the plane.
fn once(config: &Config) -> Once {
    let token = config.token.as_ref().map(|token| token.reveal().to_owned());
    Once::new(&config.plane, &config.sandbox, token, DEADLINE)
}

fn inbox_settings(config: &Config, outbox: &Outbox) -> inbox::Settings {
    let hang = Hang {
        plane: config.plane.clone(),
        sockets: config.sockets.clone(),
        sandbox: config.sandbox.clone(),
        token: config.token.as_ref().map(|token| token.reveal().to_owned()),
    };
    inbox::Settings { once: once(config), hang, again: outbox.more_messages(), pace: inbox::Pace::default() }
}

fn open_outbox(config: &Config) -> anyhow::Result<Outbox> {
    let mut context = config.task.context();
    context.insert("sandbox_id".into(), config.sandbox.as_str().into());
    let secrets = config.secrets.iter().map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
    let outbox = Outbox::open(outbox::Settings {
        dir: config.state_dir.join("outbox"),
        max_bytes: config.spool_max_bytes,
        once: once(config),
        secrets: Secrets::new(secrets.collect()),
        context,
        pace: outbox::Pace::default(),
    });
    outbox.with_context(|| format!("cannot keep events in {}", config.state_dir.display()))
}

/// Fetches the record of a session that goes on here. How many of its lines are not ours, and what to copy.
async fn inherit(config: &Config, state: &mut State, outbox: &Outbox) -> anyhow::Result<(u64, Option<Uuid>)> {
    let Some(resume) = &config.resume else { return Ok((0, None)) };
    let session = resume.session.to_string();
    let path = transcript::path(&config.claude_dir, &config.cwd, &session);
    if state.session.is_none() {
        let token = config.token.as_ref().map(|token| token.reveal().to_owned());
        let transcripts = Transcripts::new(&config.plane, &config.sandbox, token, DEADLINE);
        let id = SessionId::parse(session.as_str())?;
        let entries = transcripts.read(&id).await.context("the session's record cannot be had")?;
        anyhow::ensure!(!entries.is_empty(), "the plane has no record of session {session}");
        transcript::rebuild(&path, &entries).context("the session's record cannot be written")?;
        state.inherited = entries.len() as u64;
        if !resume.fork {
            outbox.transcript_begins(&session, state.inherited + 1);
            state.session = Some(session);
        }
    }
    let fork_of = resume.fork.then_some(resume.session);
    Ok((if resume.fork { 0 } else { state.inherited }, fork_of))
}

/// The worker cannot do what it is for. It says so, and goes.
async fn give_up(outbox: &Outbox, phase: &str, error: &str) -> ExitCode {
    tracing::error!("Cannot go on ({phase}): {error}");
    let failed = Event::worker("agent.failed").with("success", false).with("stop_reason", "not_started");
    outbox.tell(failed.with("phase", phase).with("error", error));
    outbox.tell(Event::worker("agent.shutdown").with("reason", phase).with("total_turns", 0));
    outbox.flushed(Duration::from_secs(9)).await;
    ExitCode::FAILURE
}
