//! Assembles the parts of a worker and runs it.

use crate::agents::Sessions;
use crate::completion::{Outcome, Plan};
use crate::config::Config;
use crate::confinement::loopback_ports;
use crate::event::Event;
use crate::heartbeat::{self, AgentState};
use crate::inbox::{self, HeldMessages, Inbox};
use crate::keeping::{self, Keeping};
use crate::namespace::{Namespace, SocketDirectory};
use crate::network::{GIT, Network, Place};
use crate::outbox::{self, Outbox, Secrets};
use crate::preview::{self, Loopback};
use crate::relay::{self, Relay, Service};
use crate::state::{State, StateFile};
use crate::supervisor::{Inputs, Launcher, OUTCOME_EVENT, Parts, Supervisor};
use crate::tasks::Tasks;
use crate::transcript::{self, TranscriptWriter};
use crate::workspace::save::{About, Saver};
use crate::workspace::{self, Origin, Repository};
use anyhow::Context;
use client::{SandboxApi, Transcripts, WakeUpOptions};
use confine::Tier;
use contract::payloads::{self, AgentError, AgentFailed, AgentShutdown, RunReport, WorkerIsolation};
use domain::SessionId;
use egress::endpoint::Handler;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// Timeout of one request to the plane. Failed requests are retried.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to flush the outbox before exiting.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(9);

/// Runs a worker until `stop` becomes true. `program` is the command line of this program, used for child processes.
pub async fn run(
    mut config: Config,
    program: Vec<String>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&config.cwd)
        .with_context(|| format!("cannot create {}", config.cwd.display()))?;
    // The agent stores its transcripts under the canonical path.
    config.cwd = config.cwd.canonicalize().with_context(|| format!("cannot use {}", config.cwd.display()))?;
    let tier = config.confinement.setting.resolve("ISOLATION")?;
    let confined = config.confinement.launcher(tier, program.clone()).context("cannot isolate the agent")?;
    // One client, so that all tasks share its connections.
    let api = SandboxApi::new(&config.plane, &config.sandbox, config.plaintext_token(), REQUEST_TIMEOUT);
    let mut tasks = Tasks::default();
    let (network, confined, loopback) = start_network(&config, confined, &mut tasks).await?;
    let variables = network.variables.clone();
    let outbox = open_outbox(&config, &network, &api)?;
    let not_covered = config.confinement.not_covered(&confined);
    outbox.emit(Event::worker(WorkerIsolation { tier: tier.to_string(), not_covered }));
    let state_file = StateFile::in_dir(&config.state_dir);
    let mut state = state_file.load().context("cannot read the state of an earlier run")?;
    // Start heartbeats and messages before the workspace is prepared, which may take minutes.
    let (agent_state, agent_state_receiver) = watch::channel(AgentState::default());
    let origin = origin(&config, &network, &outbox, &api, tier);
    let service =
        origin.as_ref().map(|origin| Arc::new(Service::new(origin.relay.clone(), GIT)) as Arc<dyn Handler>);
    network.serve(&mut tasks, outbox.clone(), service);
    let heartbeats =
        heartbeat::run(api.clone(), outbox.clone(), agent_state_receiver, config.heartbeat_interval);
    tasks.spawn("sending heartbeats", heartbeats);
    let seen = state.pending.iter().map(|pending| pending.message_id.clone());
    let held = HeldMessages::default();
    for pending in state.pending.iter().filter(|pending| !pending.delivered) {
        held.insert(pending.message_id.clone());
    }
    let upload_api = api.clone();
    let inbox = Inbox::open(inbox_settings(&config, api, &outbox, held.clone()), seen);

    let settings = workspace::Settings::new(&config.cwd, &config.state_dir, variables.clone(), &confined);
    let mut stop_requested = stop.clone();
    let prepared = tokio::select! {
        prepared = prepare(&config, &settings, origin.as_ref(), &mut state, &outbox) => prepared,
        // Cloning a large repository, or an unreachable plane, can take longer than the shutdown grace period.
        Ok(_) = stop_requested.wait_for(|stop| *stop) => return Ok(exit_before_start(&outbox, "signal", ExitCode::SUCCESS).await),
    };
    let (inherited, fork_of) = match prepared {
        Ok(prepared) => prepared,
        Err((phase, error)) => {
            report_startup_failure(&config, &outbox, &mut state, (phase, &error));
            if let Err(why) = state_file.save(&state) {
                tracing::error!("Cannot save the worker state: {why}");
            }
            return Ok(exit_before_start(&outbox, phase, ExitCode::FAILURE).await);
        }
    };
    if let Some(origin) = &origin {
        tasks.spawn("pushing the branch of the task", origin.relay.clone().run());
    }
    let saver = Saver::new(settings.clone(), origin, about(&config));
    let keeping = Keeping::new(keeping::Options {
        settings: settings.clone(),
        api: upload_api,
        saver: saver.clone(),
        outbox: outbox.clone(),
        max_bytes: config.keep_max_bytes,
        has_task: config.task.task_id.is_some(),
    });
    let marker = (preview::AGENT_MARKER.to_owned(), Uuid::new_v4().to_string());
    let launcher = Launcher {
        program,
        confined: settings.launcher,
        env: variables.into_iter().chain([marker]).collect(),
        inherited,
        fork_of,
        sandbox: config.sandbox.to_string(),
        loopback,
    };
    let requirements = &config.requirements;
    let validates = requirements.clean
        || requirements.pushed
        || requirements.pull_request
        || requirements.tests.is_some();
    let plan = Plan { continuous: config.continuous.clone(), validates };
    let link_state = outbox.link_state();
    let supervisor = Supervisor::new(Parts {
        config,
        launcher,
        outbox,
        held,
        state_file,
        state,
        plan,
        agent_state,
        saver,
        keeping,
    });
    Ok(supervisor.run(Inputs { inbox, link_state, stop, tasks }).await)
}

/// Opens the network of the agent, and gives it to the programs of the launcher. In the tier `namespaces`, a task keeps
/// the bridge.
async fn start_network(
    config: &Config,
    confined: confine::Launcher,
    tasks: &mut Tasks,
) -> anyhow::Result<(Network, confine::Launcher, Loopback)> {
    let sockets = match confined.tier() {
        Tier::Namespaces => Some(SocketDirectory::create(&config.state_dir)?),
        Tier::SandboxExec | Tier::Landlock | Tier::None => None,
    };
    let place = sockets.as_ref().map_or(Place::Loopback, |sockets| Place::Namespace(sockets.path()));
    let network = Network::open(config, place).await?;
    let mut confined = confined.with_variables(network.proxy_variables.clone());
    let mut loopback = Loopback::Machine;
    if let Some(sockets) = sockets {
        let bridge = network.bridge(sockets.path());
        let namespace = Namespace::start(&confined, &bridge, sockets).await;
        let namespace = namespace.context("cannot isolate the agent's network")?;
        confined = confined.with_network(namespace.network().clone());
        loopback = Loopback::of_namespace(namespace.network(), &bridge, &config.plane);
        tasks.spawn("connecting the agent's network", namespace.watch());
    }
    let ports = loopback_ports(network.variables.iter().chain(&network.proxy_variables));
    Ok((network, confined.with_ports(ports), loopback))
}

/// Prepares the workspace and the resumed session. On failure, returns the phase and the error.
async fn prepare(
    config: &Config,
    settings: &workspace::Settings,
    origin: Option<&Origin>,
    state: &mut State,
    outbox: &Outbox,
) -> Result<(u64, Option<Uuid>), (&'static str, String)> {
    let mut emit = |event| outbox.emit(event);
    let ready = workspace::prepare(config.repository.as_ref().zip(origin), settings, &mut emit).await;
    ready.map_err(|why| ("workspace", why.to_string()))?;
    restore_session(config, state, outbox).await.map_err(|why| ("resume", format!("{why:#}")))
}

/// The relay between the agent and the repository of the task.
fn origin(
    config: &Config,
    network: &Network,
    outbox: &Outbox,
    api: &SandboxApi,
    tier: Tier,
) -> Option<Origin> {
    let (repository, url) = config.repository.as_ref().zip(network.repository.clone())?;
    let Repository { url: host, branch, asks_plane, .. } = repository;
    let source = match repository.credential() {
        _ if *asks_plane => relay::Source::Plane(api.clone()),
        Some(token) => relay::Source::Token(token.clone()),
        None => relay::Source::None,
    };
    let settings = relay::Settings {
        state: config.state_dir.clone(),
        url: host.clone(),
        branch: branch.clone()?,
        source,
        environment: config.confinement.environment.clone(),
        proxy: network.repository_proxy.clone(),
        // The keys of the worker's user are not for what the author of a task names, unless the agent has them anyway.
        allows_ssh: tier == Tier::None,
        retry_delay: workspace::RETRY_DELAY,
    };
    let outbox = outbox.clone();
    Some(Origin { relay: Relay::new(settings, Arc::new(move |event| outbox.emit(event))), url })
}

fn about(config: &Config) -> About {
    let task = &config.task;
    About {
        title: task.title(),
        id: task.task_id.clone().unwrap_or_else(|| config.sandbox.to_string()),
        requested_by: config.requested_by.clone(),
    }
}

fn inbox_settings(config: &Config, api: SandboxApi, outbox: &Outbox, held: HeldMessages) -> inbox::Settings {
    let wake_up = WakeUpOptions {
        plane: config.plane.clone(),
        sockets: config.sockets.clone(),
        sandbox: config.sandbox.clone(),
        token: config.plaintext_token(),
    };
    let more_messages = outbox.more_messages();
    inbox::Settings { api, wake_up, more_messages, held, timing: inbox::Timing::default() }
}

fn open_outbox(config: &Config, network: &Network, api: &SandboxApi) -> anyhow::Result<Outbox> {
    let event_fields = payloads::fields_of(&config.task.event_fields(&config.sandbox));
    let secrets = config
        .secrets
        .iter()
        .chain(&network.keys)
        .map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
    let outbox = Outbox::open(outbox::Settings {
        dir: config.state_dir.join("outbox"),
        max_bytes: config.spool_max_bytes,
        api: api.clone(),
        secrets: Secrets::new(secrets.collect()),
        event_fields,
        timing: outbox::Timing::default(),
    });
    outbox.with_context(|| format!("cannot store events in {}", config.state_dir.display()))
}

/// Downloads the transcript of a session to resume. Returns the number of its lines that were written elsewhere, and
/// the session to fork from.
async fn restore_session(
    config: &Config,
    state: &mut State,
    outbox: &Outbox,
) -> anyhow::Result<(u64, Option<Uuid>)> {
    let Some(resume) = &config.resume else { return Ok((0, None)) };
    let session = resume.session.clone();
    let Sessions::Transcripts(directory) = config.agent.sessions() else {
        state.session.get_or_insert(session);
        return Ok((0, None));
    };
    let path = transcript::path(&directory, &config.cwd, &session);
    if state.session.is_none() {
        let transcripts =
            Transcripts::new(&config.plane, &config.sandbox, config.plaintext_token(), REQUEST_TIMEOUT);
        let id = SessionId::parse(session.as_str())?;
        state.inherited = download_transcript(&transcripts, &id, &path).await?;
        anyhow::ensure!(state.inherited > 0, "the plane has no transcript of session {session}");
        if !resume.fork {
            outbox.resume_transcript_at(&session, state.inherited + 1);
            state.session = Some(session);
        }
    }
    let fork_of = resume.session.parse().ok().filter(|_| resume.fork);
    Ok((if resume.fork { 0 } else { state.inherited }, fork_of))
}

/// Writes a session's transcript to disk page by page, because it may not fit in memory. Returns the number of lines.
async fn download_transcript(
    transcripts: &Transcripts,
    session: &SessionId,
    path: &Path,
) -> anyhow::Result<u64> {
    let cannot_write = "cannot write the transcript";
    let mut writer = TranscriptWriter::create(path).context(cannot_write)?;
    let mut after = 0;
    loop {
        let page = transcripts.page(session, after).await.context("cannot download the transcript")?;
        writer.append(&page.entries).context(cannot_write)?;
        after = page.next_after;
        if !page.has_more {
            return writer.finish().context(cannot_write);
        }
    }
}

/// Reports that the agent cannot be started. The task fails, unless it has an outcome already.
fn report_startup_failure(config: &Config, outbox: &Outbox, state: &mut State, (phase, error): (&str, &str)) {
    tracing::error!("Startup failed ({phase}): {error}");
    if state.outcome.is_some() {
        let (error, phase) = (error.to_owned(), phase.to_owned());
        outbox.emit(Event::worker(AgentError { error, phase, turn: None, stderr_tail: None }));
        return;
    }
    let failed = Event::worker(AgentFailed {
        success: false,
        stop_reason: "not_started".to_owned(),
        error: Some(error.to_owned()),
        phase: Some(phase.to_owned()),
        report: RunReport::default(),
    });
    outbox.emit(failed.with_id(format!("{OUTCOME_EVENT}-{}", config.sandbox)));
    state.outcome = Some(Outcome::failure("not_started", error));
}

/// Reports the shutdown of a worker whose agent never started.
async fn exit_before_start(outbox: &Outbox, reason: &str, code: ExitCode) -> ExitCode {
    let reason = reason.to_owned();
    outbox.emit(Event::worker(AgentShutdown { reason, total_turns: 0, task_finished: None }));
    outbox.flushed(FLUSH_TIMEOUT).await;
    code
}
