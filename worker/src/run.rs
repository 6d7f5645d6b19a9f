//! Putting a worker together, and running it.

use crate::completion::{Outcome, Plan};
use crate::config::{Agent, Config};
use crate::event::Event;
use crate::heartbeat::{self, Vitals};
use crate::inbox::{self, Inbox};
use crate::outbox::{self, Outbox, Secrets};
use crate::preview;
use crate::session::{Crew, OUTCOME, Outside, Parts, Session};
use crate::state::{Kept, State};
use crate::transcript::{self, Rebuild};
use crate::workspace::{self, snapshot::Snapshots};
use anyhow::Context;
use client::{Hang, Once, Transcripts};
use domain::SessionId;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// How long the plane may take to answer a request before it is repeated.
const DEADLINE: Duration = Duration::from_secs(15);

/// How long it may take to send the last words.
const FAREWELL: Duration = Duration::from_secs(9);

/// Runs a worker until `stop` says so. `program` is how this program is called, for the parts of it that others start.
pub async fn run(
    mut config: Config,
    program: Vec<String>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&config.cwd).with_context(|| format!("cannot make {}", config.cwd.display()))?;
    // The agent's own record is filed under the real path.
    config.cwd = config.cwd.canonicalize().with_context(|| format!("cannot use {}", config.cwd.display()))?;
    // One way to the plane for all: they share its connections.
    let once = Once::new(&config.plane, &config.sandbox, config.token_in_clear(), DEADLINE);
    let outbox = open_outbox(&config, &once)?;
    let kept = Kept::in_folder(&config.state_dir);
    let mut state = kept.load().context("what an earlier run has kept cannot be read")?;
    // From the first second: whoever watches sees that it lives, and what is said meanwhile is not lost.
    let (vitals, seen) = watch::channel(Vitals::default());
    let beating = tokio::spawn(heartbeat::run(once.clone(), outbox.clone(), seen, config.heartbeat));
    let given = state.pending.iter().map(|pending| pending.message_id.clone());
    let inbox = Inbox::open(inbox_settings(&config, once, &outbox), given);

    let settings = workspace::Settings::new(&config.cwd, &config.state_dir, program.clone());
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        prepared = prepare(&config, &settings, &mut state, &outbox) => prepared,
        // A large repository, or a plane that is away, takes longer than whoever stops it waits.
        Ok(_) = stopped.wait_for(|stop| *stop) => return Ok(leave(&outbox, "signal", ExitCode::SUCCESS).await),
    };
    let (ready, (inherited, fork_of)) = match prepared {
        Ok(prepared) => prepared,
        Err((phase, error)) => {
            give_up(&config, &outbox, &mut state, (phase, &error));
            if let Err(why) = kept.save(&state) {
                tracing::error!("The worker's state cannot be kept: {why}");
            }
            return Ok(leave(&outbox, phase, ExitCode::FAILURE).await);
        }
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

/// Everything that must be there before an agent can begin; or what is missing, and why.
async fn prepare(
    config: &Config,
    settings: &workspace::Settings,
    state: &mut State,
    outbox: &Outbox,
) -> Result<(workspace::Ready, (u64, Option<Uuid>)), (&'static str, String)> {
    let mut tell = |event| outbox.tell(event);
    let ready = workspace::prepare(config.repository.as_ref(), settings, &mut tell).await;
    let ready = ready.map_err(|why| ("workspace", why.to_string()))?;
    let inherited = inherit(config, state, outbox).await.map_err(|why| ("resume", format!("{why:#}")))?;
    Ok((ready, inherited))
}

fn inbox_settings(config: &Config, once: Once, outbox: &Outbox) -> inbox::Settings {
    let hang = Hang {
        plane: config.plane.clone(),
        sockets: config.sockets.clone(),
        sandbox: config.sandbox.clone(),
        token: config.token_in_clear(),
    };
    inbox::Settings { once, hang, again: outbox.more_messages(), pace: inbox::Pace::default() }
}

fn open_outbox(config: &Config, once: &Once) -> anyhow::Result<Outbox> {
    let mut context = config.task.context();
    context.insert("sandbox_id".into(), config.sandbox.as_str().into());
    let secrets = config.secrets.iter().map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
    let outbox = Outbox::open(outbox::Settings {
        dir: config.state_dir.join("outbox"),
        max_bytes: config.spool_max_bytes,
        once: once.clone(),
        secrets: Secrets::new(secrets.collect()),
        context,
        pace: outbox::Pace::default(),
    });
    outbox.with_context(|| format!("cannot keep events in {}", config.state_dir.display()))
}

/// Fetches the record of a session that goes on here. How many of its lines are not ours, and what to copy.
async fn inherit(config: &Config, state: &mut State, outbox: &Outbox) -> anyhow::Result<(u64, Option<Uuid>)> {
    let Some(resume) = &config.resume else { return Ok((0, None)) };
    let session = resume.session.clone();
    if let Agent::Acp(_) = config.agent {
        // Its record is its own; whether it still has it, it says itself.
        state.session.get_or_insert(session);
        return Ok((0, None));
    }
    let path = transcript::path(&config.record_dir(), &config.cwd, &session);
    if state.session.is_none() {
        let transcripts = Transcripts::new(&config.plane, &config.sandbox, config.token_in_clear(), DEADLINE);
        let id = SessionId::parse(session.as_str())?;
        state.inherited = fetch(&transcripts, &id, &path).await?;
        anyhow::ensure!(state.inherited > 0, "the plane has no record of session {session}");
        if !resume.fork {
            outbox.transcript_begins(&session, state.inherited + 1);
            state.session = Some(session);
        }
    }
    let fork_of = resume.session.parse().ok().filter(|_| resume.fork);
    Ok((if resume.fork { 0 } else { state.inherited }, fork_of))
}

/// Writes a session's record down again, page by page: a long one must not stand in memory as a whole. How many lines.
async fn fetch(transcripts: &Transcripts, session: &SessionId, path: &Path) -> anyhow::Result<u64> {
    let written = "the session's record cannot be written";
    let mut rebuild = Rebuild::begin(path).context(written)?;
    let mut after = 0;
    loop {
        let page = transcripts.page(session, after).await.context("the session's record cannot be had")?;
        rebuild.add(&page.entries).context(written)?;
        after = page.next_after;
        if !page.has_more {
            return rebuild.end().context(written);
        }
    }
}

/// The worker cannot do what it is for, and says so. That is the end of the task, unless it has had one.
fn give_up(config: &Config, outbox: &Outbox, state: &mut State, (phase, error): (&str, &str)) {
    tracing::error!("Cannot go on ({phase}): {error}");
    if state.outcome.is_some() {
        outbox.tell(Event::worker("agent.error").with("error", error).with("phase", phase));
        return;
    }
    let failed = Event::worker("agent.failed").with("success", false).with("stop_reason", "not_started");
    let name = format!("{OUTCOME}-{}", config.sandbox);
    outbox.tell(failed.with("phase", phase).with("error", error).named(name));
    state.outcome = Some(Outcome::failure("not_started", error));
}

/// The last word of a worker whose agent has not begun.
async fn leave(outbox: &Outbox, reason: &str, code: ExitCode) -> ExitCode {
    outbox.tell(Event::worker("agent.shutdown").with("reason", reason).with("total_turns", 0));
    outbox.flushed(FAREWELL).await;
    code
}
