//! What every agent must do, whatever it is: the contract of `worker::agents::Agent`.
//!
//! An agent is asked to say something, to wait until it is interrupted, and to say something again. Scripts play these
//! three turns for adapters of real agents.

mod throw_away;

use confine::Launcher;
use domain::message::State;
use kit::acp::with_program;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;
use uuid::Uuid;
use worker::agents::policy::{Mode, Policy};
use worker::agents::{
    Agent, AgentActivity, AgentCommand, AgentHandle, AgentKind, AgentOutput, ExitReason, Launch, Sessions,
    TurnEnd, UserMessage,
};
use worker::config::{Config, environment};

/// The agents of the product, and one that is added like every other: in one line.
fn kinds() -> Vec<&'static AgentKind> {
    [&local::agents::agents()[..], &[&throw_away::THROW_AWAY]].concat()
}

const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapter_of_claude_code_fulfils_the_agent_contract() {
    let folder = TempDir::new().unwrap();
    let steps = [
        json!({"type": "text", "text": "Hello."}),
        json!({"play": "turn_end"}),
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "sleep 600"}}),
        json!({"type": "text", "text": "Hello again."}),
        json!({"play": "turn_end"}),
    ];
    let script = folder.path().join("script.jsonl");
    std::fs::write(&script, steps.map(|step| format!("{step}\n")).concat()).unwrap();
    check_contract(&format!("scripted:{}", script.display()), &folder).await;
}

#[test]
fn adapter_of_acp_fulfils_the_agent_contract() {
    let say = |text: &str| json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}});
    let turns = json!([[say("Hello.")], [say("I wait."), "wait_for_cancel"], [say("Hello again.")]]);
    with_program(&json!({"turns": turns}), |program| async move {
        check_contract(&format!("acp:{program}"), &TempDir::new().unwrap()).await;
    });
}

#[tokio::test]
async fn throw_away_agent_fulfils_the_agent_contract() {
    check_contract("throwaway", &TempDir::new().unwrap()).await;
}

/// Checks the contract of [`Agent`].
async fn check_contract(name: &str, folder: &TempDir) {
    let mut agent = configured(name, folder.path());
    assert!(!agent.name().is_empty() && !agent.describe().is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    assert_eq!(agent.check(&path.to_string_lossy()), Ok(()), "the agent can be started");

    let mut launch = launch(folder.path(), agent.sessions());
    assert!(agent.recover(&launch).is_none(), "a new session has nothing to recover");
    let mut running = Running::start(agent.as_mut(), launch.clone());

    let first = running.send("say hello").await;
    let turn = running.turn().await;
    assert!(turn.end.success && !turn.end.interrupted, "{:?}", turn.end);
    assert_eq!(turn.activities, [AgentActivity::Working, AgentActivity::Idle]);
    assert!(turn.messages > 0, "what the agent says is an event");
    check_receipts(&turn, first, &[State::Completed]);

    let second = running.send("wait until you are interrupted").await;
    running.until_working().await;
    running.command(AgentCommand::Interrupt { cancel_queued: true }).await;
    let turn = running.turn().await;
    assert!(turn.end.interrupted && !turn.end.success, "{:?}", turn.end);
    assert!(turn.confirmed_interrupt, "an interrupt is confirmed");
    check_receipts(&turn, second, &[State::Started, State::Cancelled, State::Completed]);

    let third = running.send("say it again").await;
    let turn = running.turn().await;
    assert!(turn.end.success, "an interrupted agent goes on with the next message: {:?}", turn.end);
    assert!(turn.end.turns > 1, "responses are counted over all turns");
    check_receipts(&turn, third, &[State::Completed]);

    let (ids, session) = running.stop().await;
    assert_eq!(ids.len(), ids.iter().collect::<HashSet<_>>().len(), "event ids are unique");
    let Sessions::Transcripts(_) = agent.sessions() else {
        assert!(session.is_some(), "an agent that stores its sessions reports their ids");
        return;
    };
    // After a restart of the worker, recovery returns the same event ids.
    let mut agent = configured(name, folder.path());
    launch.resume_turn = false;
    let recovered = agent.recover(&launch).expect("the session has a transcript");
    assert!([first, second, third].iter().all(|uuid| recovered.read_messages.contains(uuid)));
    let recovered_ids: Vec<&str> = recovered.events.iter().map(|event| event.id.as_str()).collect();
    assert!(!recovered_ids.is_empty());
    let unknown: Vec<_> =
        recovered_ids.iter().filter(|id| !ids.iter().any(|emitted| emitted == *id)).collect();
    assert!(unknown.is_empty(), "a replayed event has another id than before: {unknown:?}");
    let running = Running::start(agent.as_mut(), launch);
    running.stop().await;
}

/// The receipts of a message advance, and the last one is one of `last`. `TurnEnd::answered` of a successful turn stands
/// for the receipt `completed`: the worker sends it then, so an agent reports one of both.
fn check_receipts(turn: &Turn, uuid: Uuid, last: &[State]) {
    let mut states: Vec<State> =
        turn.receipts.iter().filter(|(of, _)| *of == uuid).map(|(_, state)| *state).collect();
    if turn.end.success && turn.end.answered.contains(&uuid) && states.last() != Some(&State::Completed) {
        states.push(State::Completed);
    }
    assert!(states.is_sorted_by(|before, after| before < after), "receipts only advance: {states:?}");
    assert!(
        states.last().is_some_and(|state| last.contains(state)),
        "{states:?} must end with one of {last:?}"
    );
}

fn configured(name: &str, folder: &Path) -> Box<dyn Agent> {
    // Beside the workspace: the agent must not be able to change it.
    let state = folder.with_extension("state").display().to_string();
    let folder = folder.display().to_string();
    let variables = [
        ("SANDBOX_ID", "s"),
        ("SANDBOX_TOKEN", "t"),
        ("AGENT", name),
        ("HOME", &folder),
        ("CWD", &folder),
        ("STATE_DIR", &state),
    ];
    let environment: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (config, problems) = Config::read(&environment, &kinds());
    assert_eq!(problems, []);
    config.unwrap().agent
}

fn launch(folder: &Path, sessions: Sessions) -> Launch {
    let cwd = folder.canonicalize().unwrap();
    let with_transcripts = matches!(sessions, Sessions::Transcripts(_));
    Launch {
        worker: vec![env!("CARGO_BIN_EXE_sunaba").to_owned(), "worker".to_owned()],
        cwd: cwd.clone(),
        env: Vec::new(),
        launcher: Launcher::unconfined(environment()),
        session: with_transcripts.then(|| Uuid::new_v4().to_string()),
        fork_of: None,
        inherited: 0,
        resume_turn: false,
        model: None,
        policy: Policy { mode: Mode::AcceptEdits, denied: Vec::new(), root: cwd },
        allowed_tools: Vec::new(),
        disallowed_tools: Vec::new(),
        max_turns: 50,
        max_budget_usd: 10.0,
        system_prompt: None,
        append_system_prompt: None,
        partial_messages: true,
        background_timeout: Duration::from_secs(5),
    }
}

struct Running {
    handle: AgentHandle,
    /// Outputs that were read ahead.
    ahead: Vec<AgentOutput>,
    event_ids: Vec<String>,
    session: Option<String>,
}

struct Turn {
    end: TurnEnd,
    activities: Vec<AgentActivity>,
    receipts: Vec<(Uuid, State)>,
    messages: usize,
    confirmed_interrupt: bool,
}

impl Running {
    fn start(agent: &mut dyn Agent, launch: Launch) -> Self {
        Self { handle: agent.start(launch), ahead: Vec::new(), event_ids: Vec::new(), session: None }
    }

    async fn command(&self, command: AgentCommand) {
        timeout(TIMEOUT, self.handle.commands.send(command)).await.unwrap().expect("the agent runs");
    }

    async fn send(&self, text: &str) -> Uuid {
        let uuid = Uuid::new_v4();
        self.command(AgentCommand::Message(UserMessage { uuid, text: text.to_owned() })).await;
        uuid
    }

    async fn read(&mut self) -> AgentOutput {
        let output = timeout(TIMEOUT, self.handle.next()).await.expect("the agent reports something");
        match &output {
            AgentOutput::Event(event) => self.event_ids.push(event.id.clone()),
            AgentOutput::Session(session) => self.session = Some(session.clone()),
            _ => {}
        }
        output
    }

    /// Reads until the agent says or does something in its turn.
    async fn until_working(&mut self) {
        let mut is_working = false;
        loop {
            let output = self.read().await;
            is_working |= matches!(output, AgentOutput::Activity(AgentActivity::Working));
            let works = matches!(&output, AgentOutput::Event(event)
                if ["agent.message", "agent.tool_use"].contains(&event.event_type.as_str()));
            let partial = matches!(output, AgentOutput::Partial(_));
            self.ahead.push(output);
            if is_working && (works || partial) {
                return;
            }
        }
    }

    /// Reads the outputs of a turn, until the agent is idle.
    async fn turn(&mut self) -> Turn {
        let mut turn = Turn {
            end: TurnEnd::default(),
            activities: Vec::new(),
            receipts: Vec::new(),
            messages: 0,
            confirmed_interrupt: false,
        };
        let (mut ahead, mut ended) = (std::mem::take(&mut self.ahead).into_iter(), false);
        loop {
            let output = match ahead.next() {
                Some(output) => output,
                None => self.read().await,
            };
            match output {
                AgentOutput::Event(event) if event.event_type == "agent.message" => turn.messages += 1,
                AgentOutput::Receipt { uuid, state } => turn.receipts.push((uuid, state)),
                AgentOutput::Interrupted { .. } => turn.confirmed_interrupt = true,
                AgentOutput::Activity(activity) => turn.activities.push(activity),
                AgentOutput::TurnEnded(end) => (turn.end, ended) = (*end, true),
                AgentOutput::Exited(reason) => panic!("the agent exited: {reason:?}"),
                _ => {}
            }
            if ended && turn.activities.last() == Some(&AgentActivity::Idle) {
                return turn;
            }
        }
    }

    /// Stops the agent. Returns the ids of all its events, and its session.
    async fn stop(mut self) -> (Vec<String>, Option<String>) {
        self.command(AgentCommand::Stop).await;
        let reason = loop {
            if let AgentOutput::Exited(reason) = self.read().await {
                break reason;
            }
        };
        assert!(matches!(reason, ExitReason::Exited { code: 0 | 1 }), "{reason:?}");
        let after = timeout(TIMEOUT, self.handle.outputs.recv()).await.unwrap();
        assert!(after.is_none(), "the exit is the last output: {after:?}");
        timeout(TIMEOUT, &mut self.handle.driver).await.unwrap().expect("the driver ends without a panic");
        (self.event_ids, self.session)
    }
}
