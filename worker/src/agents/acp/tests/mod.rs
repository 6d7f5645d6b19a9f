//! Sessions with a scripted agent.

mod golden;
mod processes;

use super::*;
use crate::agents::policy::{Mode, Policy};
use crate::agents::{AgentActivity, UserMessage};
use domain::message::State;
use kit::acp::{Record, Script, Step};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::duplex;
use tokio::task::JoinHandle;
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A session with an agent in this process.
struct TestAgent {
    folder: TempDir,
    commands: mpsc::Sender<AgentCommand>,
    outputs: mpsc::Receiver<AgentOutput>,
    record: Record,
    received: Vec<AgentOutput>,
    task: JoinHandle<()>,
}

fn script(value: Value) -> Script {
    serde_json::from_value(value).expect("the script is valid")
}

fn start_agent(script: Script) -> TestAgent {
    start_with(script, Mode::BypassPermissions, None, tempfile::tempdir().unwrap())
}

fn start_with(script: Script, mode: Mode, resume: Option<&str>, folder: TempDir) -> TestAgent {
    let (command_sender, mut commands) = mpsc::channel(8);
    let (output_sender, outputs) = mpsc::channel(8);
    let (agent_reads, writer) = duplex(4096);
    let (reader, agent_writes) = duplex(4096);
    let record = Record::default();
    let workspace = Workspace::open(folder.path()).unwrap();
    let host = Host {
        workspace: workspace.clone(),
        terminals: Terminals::new(workspace, crate::confinement::unconfined(), vec![]),
    };
    let options = SessionOptions {
        cwd: folder.path().to_owned(),
        resume: resume.map(str::to_owned),
        meta: Some(json!({ "test": true })),
        policy: Policy { mode, denied: vec![], root: folder.path().to_owned() },
        stderr: StderrTail::default(),
    };
    let scripted_agent = kit::acp::serve(agent_reads, agent_writes, script, Record::clone(&record));
    let host_root = folder.path().to_owned();
    let task = tokio::spawn(async move {
        let scripted_agent = tokio::spawn(scripted_agent);
        let mut session = Session::new(options, Normalizer::new(host.terminals.clone(), host_root));
        run_session(reader, writer, &mut session, &host, &mut commands, &output_sender).await;
        session.end("exit code 1");
        while let Some(output) = session.outputs().pop_front() {
            output_sender.send(output).await.unwrap();
        }
        host.terminals.close().await;
        scripted_agent.abort();
    });
    TestAgent { folder, commands: command_sender, outputs, record, received: Vec::new(), task }
}

impl TestAgent {
    async fn command(&self, command: AgentCommand) {
        self.commands.send(command).await.expect("the session is running");
    }

    async fn prompt(&self, number: u128, text: &str) {
        self.command(AgentCommand::Message(UserMessage {
            uuid: Uuid::from_u128(number),
            text: text.to_owned(),
        }))
        .await;
    }

    async fn wait_for(&mut self, what: &str, matches: impl Fn(&AgentOutput) -> bool) {
        let wait = async {
            while let Some(output) = self.outputs.recv().await {
                let found = matches(&output);
                self.received.push(output);
                if found {
                    return;
                }
            }
            panic!("the session ended before {what}: {:#?}", self.received);
        };
        timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("no {what} within {TIMEOUT:?}"));
    }

    async fn wait_for_receipt(&mut self, number: u128, state: State) {
        let wanted = Uuid::from_u128(number);
        let matches = |output: &AgentOutput| matches!(output, AgentOutput::Receipt { uuid, state: s } if *uuid == wanted && *s == state);
        self.wait_for(&format!("{state:?} of {number}"), matches).await;
    }

    async fn wait_until_idle(&mut self) {
        self.wait_for("idle", |output| matches!(output, AgentOutput::Activity(AgentActivity::Idle))).await;
    }

    /// Collects all outputs until the session ends by itself.
    async fn wait_for_end(&mut self) {
        let end = async {
            while let Some(output) = self.outputs.recv().await {
                self.received.push(output);
            }
            (&mut self.task).await.expect("the session does not panic");
        };
        timeout(TIMEOUT, end).await.expect("the session ends");
    }

    async fn stop(&mut self) {
        self.command(AgentCommand::Stop).await;
        self.wait_for_end().await;
    }

    fn events(&self, event_type: &str) -> Vec<&Event> {
        let events = self.received.iter().filter_map(|output| match output {
            AgentOutput::Event(event) if event.event_type == event_type => Some(event),
            _ => None,
        });
        events.collect()
    }

    fn receipts(&self) -> Vec<(u128, State)> {
        let receipts = self.received.iter().filter_map(|output| match output {
            AgentOutput::Receipt { uuid, state } => Some((uuid.as_u128(), *state)),
            _ => None,
        });
        receipts.collect()
    }

    fn interrupted(&self) -> Vec<Vec<u128>> {
        let interrupted = self.received.iter().filter_map(|output| match output {
            AgentOutput::Interrupted { cancelled } => Some(cancelled.iter().map(Uuid::as_u128).collect()),
            _ => None,
        });
        interrupted.collect()
    }

    fn sent(&self, method: &str) -> Vec<Value> {
        let record = self.record.lock().unwrap();
        record.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    fn prompts(&self) -> Vec<String> {
        let texts = self.sent("session/prompt").into_iter();
        texts.map(|prompt| prompt["params"]["prompt"][0]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The responses that the agent received.
    fn responses(&self) -> Vec<Value> {
        let record = self.record.lock().unwrap();
        record.iter().filter(|message| message.get("method").is_none()).cloned().collect()
    }
}

fn text(text: &str) -> Value {
    json!({ "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } })
}

fn call(method: &str, params: Value) -> Step {
    Step::Call { method: method.to_owned(), params }
}

#[tokio::test]
async fn session_is_opened_with_its_metadata() {
    let mut agent = start_agent(script(json!({ "turns": [] })));
    agent.wait_until_idle().await;
    assert_eq!(agent.sent("session/new")[0]["params"]["_meta"], json!({ "test": true }));
}

#[tokio::test]
async fn message_chunks_are_joined() {
    let mut agent = start_agent(script(json!({ "turns": [[text("Hel"), text("lo")]] })));
    agent.wait_until_idle().await;
    agent.prompt(1, "hi").await;
    agent.wait_until_idle().await;
    agent.stop().await;
    assert_eq!(agent.receipts(), [(1, State::Delivered), (1, State::Started), (1, State::Completed)]);
    let messages = agent.events("agent.message");
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0].data["content"], &messages[0].data["turn"]), (&json!("Hello"), &json!(1)));
    let partials = agent.received.iter().filter_map(|output| match output {
        AgentOutput::Partial(partial) => Some((partial.offset, partial.text.as_str())),
        _ => None,
    });
    let partials: Vec<_> = partials.collect();
    assert_eq!(partials, [(0, "Hel"), (3, "lo")]);
    let end = agent.received.iter().find_map(|output| match output {
        AgentOutput::TurnEnded(end) => Some(end),
        _ => None,
    });
    let end = end.unwrap();
    assert!(end.success && end.result == "Hello" && end.session == "session-1" && end.turns == 1);
    assert_eq!(end.answered, [Uuid::from_u128(1)]);
    let initialize = &agent.sent("initialize")[0]["params"];
    assert_eq!(initialize["protocolVersion"], 1);
    assert_eq!(initialize["clientCapabilities"]["terminal"], true);
}

#[tokio::test]
async fn messages_during_a_turn_are_queued_in_order() {
    use State::{Cancelled, Completed, Delivered, Started};
    let mut agent = start_agent(script(json!({ "turns": [["wait_for_cancel"], [], []] })));
    agent.prompt(1, "one").await;
    agent.wait_for_receipt(1, Started).await;
    agent.prompt(2, "two").await;
    agent.prompt(3, "three").await;
    assert_eq!(agent.receipts().len(), 2, "queued messages have no receipt");
    agent.command(AgentCommand::Interrupt { cancel_queued: false }).await;
    agent.wait_until_idle().await;
    agent.stop().await;
    let expected = [
        (1, Delivered),
        (1, Started),
        (1, Cancelled),
        (2, Delivered),
        (2, Started),
        (2, Completed),
        (3, Delivered),
        (3, Started),
        (3, Completed),
    ];
    assert_eq!(agent.receipts(), expected);
    assert_eq!(agent.prompts(), ["one", "two", "three"]);
    assert_eq!(agent.interrupted(), [Vec::<u128>::new()]);
    assert_eq!(agent.sent("session/cancel").len(), 1);
}

#[tokio::test]
async fn interrupt_can_cancel_queued_messages() {
    let mut agent = start_agent(script(json!({ "turns": [["wait_for_cancel"], []] })));
    agent.prompt(1, "one").await;
    agent.wait_for_receipt(1, State::Started).await;
    agent.prompt(2, "two").await;
    agent.prompt(3, "three").await;
    agent.command(AgentCommand::Interrupt { cancel_queued: true }).await;
    agent.prompt(4, "four").await;
    agent.wait_for_receipt(4, State::Completed).await;
    agent.stop().await;
    assert_eq!(agent.interrupted(), [vec![2, 3]]);
    assert_eq!(agent.prompts(), ["one", "four"]);
    assert!(
        agent.receipts().contains(&(1, State::Cancelled))
            && agent.receipts().contains(&(3, State::Cancelled))
    );
}

#[tokio::test]
async fn interrupt_without_a_turn_is_acknowledged_immediately() {
    let mut agent = start_agent(Script::default());
    agent.wait_until_idle().await;
    agent.command(AgentCommand::Interrupt { cancel_queued: true }).await;
    agent.wait_for("an interrupt", |output| matches!(output, AgentOutput::Interrupted { .. })).await;
    agent.stop().await;
    assert!(agent.sent("session/cancel").is_empty());
}

#[tokio::test]
async fn open_tools_are_completed_when_the_turn_is_cancelled() {
    let tool = json!({ "update": { "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "kind": "execute",
        "rawInput": { "command": "make" } } });
    let mut agent = start_agent(script(json!({ "turns": [[tool, "wait_for_cancel"]] })));
    agent.prompt(1, "go").await;
    agent
        .wait_for(
            "a tool",
            |output| matches!(output, AgentOutput::Event(event) if event.event_type == "agent.tool_use"),
        )
        .await;
    agent.command(AgentCommand::Interrupt { cancel_queued: false }).await;
    agent.wait_until_idle().await;
    agent.stop().await;
    let completed = agent.events("agent.tool_completed");
    assert_eq!(
        (&completed[0].data["tool_use_id"], &completed[0].data["is_error"]),
        (&json!("c1"), &json!(true))
    );
    let turn = agent.events("agent.turn_completed")[0];
    assert_eq!((&turn.data["stop_reason"], &turn.data["success"]), (&json!("cancelled"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn ignored_interrupt_emits_an_error() {
    let mut agent = start_agent(script(json!({ "turns": [[{ "sleep": { "ms": 15_000 } }, text("done")]] })));
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Started).await;
    agent.command(AgentCommand::Interrupt { cancel_queued: false }).await;
    agent.wait_until_idle().await;
    agent.stop().await;
    let errors = agent.events("agent.error");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].data["phase"], "interrupt");
    assert_eq!(agent.interrupted().len(), 1);
    assert!(agent.receipts().contains(&(1, State::Completed)), "the turn ended by itself");
}

async fn permission_in(mode: Mode) -> (Value, Value) {
    let params = json!({
        "toolCall": { "toolCallId": "c1", "title": "rm -rf build", "kind": "execute", "rawInput": { "command": "rm" } },
        "options": [
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ],
    });
    let mut script = Script::default();
    script.turns.push_back(vec![call("session/request_permission", params)]);
    let mut agent = start_with(script, mode, None, tempfile::tempdir().unwrap());
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Completed).await;
    agent.stop().await;
    assert_eq!(agent.events("agent.tool_use").len(), 1, "the requested tool is emitted");
    let decision = agent.events("agent.permission_decided").last().unwrap().data["decision"].clone();
    (agent.responses()[0]["result"]["outcome"].clone(), decision)
}

#[tokio::test]
async fn permission_mode_decides_requests() {
    let yes = json!({ "outcome": "selected", "optionId": "yes" });
    let no = json!({ "outcome": "selected", "optionId": "no" });
    for mode in [Mode::BypassPermissions, Mode::Default, Mode::AcceptEdits] {
        assert_eq!(permission_in(mode).await, (yes.clone(), json!("allow")), "{mode:?}");
    }
    for mode in [Mode::Plan, Mode::DontAsk] {
        assert_eq!(permission_in(mode).await, (no.clone(), json!("deny")), "{mode:?}");
    }
}

#[tokio::test]
async fn permission_request_after_interrupt_is_cancelled() {
    let params = json!({ "toolCall": { "toolCallId": "c1" }, "options": [] });
    let mut script = Script::default();
    script.turns.push_back(vec![Step::WaitForCancel, call("session/request_permission", params)]);
    let mut agent = start_agent(script);
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Started).await;
    agent.command(AgentCommand::Interrupt { cancel_queued: false }).await;
    agent.wait_until_idle().await;
    agent.stop().await;
    assert_eq!(agent.responses()[0]["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[tokio::test]
async fn host_methods_are_limited_to_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("new/a.txt");
    let mut script = Script::default();
    script.turns.push_back(vec![
        call("fs/write_text_file", json!({ "path": inside, "content": "one\ntwo\n" })),
        call("fs/read_text_file", json!({ "path": inside, "line": 2, "limit": 1 })),
        call("fs/read_text_file", json!({ "path": "/etc/passwd" })),
        call("terminal/create", json!({ "command": "cat new/a.txt", "outputByteLimit": 4 })),
        call("terminal/wait_for_exit", json!({ "terminalId": "terminal-1" })),
        call("terminal/output", json!({ "terminalId": "terminal-1" })),
        call("terminal/release", json!({ "terminalId": "terminal-1" })),
        call("terminal/create", json!({ "command": "true", "cwd": "/" })),
        call("elicitation/create", json!({})),
        call("fs/rename", json!({})),
    ]);
    let mut agent = start_with(script, Mode::Default, None, folder);
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Completed).await;
    agent.stop().await;
    let responses = agent.responses();
    assert_eq!(responses[0]["result"], json!({}));
    assert_eq!(responses[1]["result"], json!({ "content": "two\n" }));
    assert!(responses[2]["error"]["message"].as_str().unwrap().contains("outside of the workspace"));
    assert_eq!(responses[4]["result"]["exitCode"], 0);
    assert_eq!(responses[5]["result"]["output"], "two\n");
    assert_eq!(responses[5]["result"]["truncated"], true);
    assert_eq!(responses[7]["error"]["code"], -32602);
    assert_eq!(
        (&responses[8]["error"]["code"], &responses[9]["error"]["code"]),
        (&json!(-32601), &json!(-32601))
    );
    assert!(agent.folder.path().join("new/a.txt").exists());
}

#[tokio::test]
async fn loaded_history_emits_no_events() {
    let chunk = |id: &str, text: &str| json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": { "type": "text", "text": text } });
    let usage = |amount: f64| {
        json!({ "sessionUpdate": "usage_update", "used": 5, "size": 9,
        "cost": { "amount": amount, "currency": "USD" } })
    };
    let history = json!([
        { "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "hi" } },
        chunk("m1", "Hello"),
        { "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls", "status": "completed" },
        usage(2.0),
    ]);
    let mut script = script(json!({ "capabilities": { "loadSession": true }, "history": history }));
    script.turns.push_back(vec![Step::Update(chunk("m2", "Again")), Step::Update(usage(2.5))]);
    let mut agent = start_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
    agent.wait_until_idle().await;
    assert!(agent.events("agent.message").is_empty() && agent.events("agent.tool_use").is_empty());
    agent.prompt(1, "go on").await;
    agent.wait_until_idle().await;
    agent.stop().await;
    assert!(agent.sent("session/new").is_empty());
    assert_eq!(agent.events("agent.message")[0].data["content"], "Again");
    let turn = agent.events("agent.turn_completed")[0];
    assert_eq!((&turn.data["session_id"], &turn.data["cost_usd"]), (&json!("old-1"), &json!(0.5)));
}

#[tokio::test]
async fn resume_is_preferred_to_load() {
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } });
    let script = script(json!({ "capabilities": capabilities }));
    let mut agent = start_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
    agent.wait_until_idle().await;
    agent.stop().await;
    assert_eq!(agent.sent("session/resume")[0]["params"]["sessionId"], "old-1");
    assert!(agent.sent("session/load").is_empty() && agent.sent("session/new").is_empty());
}

#[tokio::test]
async fn failed_resume_emits_an_error_and_starts_a_new_session() {
    let refuses = json!({ "code": -32002, "message": "Not found" });
    for script in [
        script(json!({})),
        script(json!({ "capabilities": { "loadSession": true }, "load_session_error": refuses })),
        script(json!({ "capabilities": { "loadSession": true, "sessionCapabilities": { "resume": {} } },
            "load_session_error": refuses })),
    ] {
        let mut agent = start_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
        agent.wait_until_idle().await;
        agent.stop().await;
        assert_eq!(agent.events("agent.error")[0].data["phase"], "resume");
        assert_eq!(agent.events("agent.system_message")[0].data["metadata"]["session_id"], "session-1");
    }
}

#[tokio::test]
async fn crash_during_a_turn_cancels_the_message() {
    let mut agent = start_agent(script(json!({ "turns": [[text("I will"), "crash"]] })));
    agent.prompt(1, "go").await;
    agent.prompt(2, "and then").await;
    agent.wait_for_end().await;
    assert_eq!(
        agent.receipts().last(),
        Some(&(1, State::Cancelled)),
        "a queued message never reached the agent"
    );
    assert_eq!(agent.events("agent.message")[0].data["content"], "I will");
    let error = &agent.events("agent.error")[0].data;
    assert!(error["error"].as_str().unwrap().contains("during a turn: exit code 1"), "{error:?}");
}

#[tokio::test]
async fn session_continues_after_a_failed_turn() {
    let refuse =
        json!({ "fail": { "code": -32603, "message": "Internal error", "data": { "details": "no quota" } } });
    let mut agent = start_agent(script(json!({ "turns": [[refuse], [text("better")]] })));
    agent.prompt(1, "one").await;
    agent.prompt(2, "two").await;
    agent.wait_for_receipt(2, State::Completed).await;
    agent.stop().await;
    assert_eq!(agent.events("agent.error")[0].data["error"], "Internal error (no quota)");
    let turns = agent.events("agent.turn_completed");
    assert_eq!((&turns[0].data["success"], &turns[1].data["success"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn unknown_updates_become_unparsed_events() {
    let steps = json!([
        { "update": { "sessionUpdate": "dream", "about": "sheep" } },
        { "update": { "sessionUpdate": "tool_call", "title": "without an id" } },
        { "line": "Debugger attached." },
        { "line": "{\"jsonrpc\":\"2.0\",\"method\":\"_kit/unknown\",\"params\":{\"a\":1}}" },
        { "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "ok" }, "new": 1 } },
    ]);
    let mut agent = start_agent(script(json!({ "turns": [steps] })));
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Completed).await;
    agent.stop().await;
    let raw: Vec<_> = agent.events("agent.unparsed").iter().map(|event| event.data["raw"].clone()).collect();
    assert_eq!(raw[0], json!({ "sessionUpdate": "dream", "about": "sheep" }));
    assert_eq!(raw[2], "Debugger attached.");
    assert_eq!(raw.len(), 4);
    assert_eq!(agent.events("agent.message")[0].data["content"], "ok");
}

#[tokio::test]
async fn long_response_is_truncated_and_kept_in_full_result() {
    let long = "é".repeat(6_000);
    let tool = json!({ "update": { "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "cat", "kind": "read",
        "status": "completed", "rawOutput": long } });
    let mut agent = start_agent(script(json!({ "turns": [[tool]] })));
    agent.prompt(1, "go").await;
    agent.wait_for_receipt(1, State::Completed).await;
    agent.stop().await;
    let completed = &agent.events("agent.tool_completed")[0].data;
    assert_eq!(completed["tool_response"].as_str().unwrap().chars().count(), 5_000);
    assert_eq!(completed["tool_response_full_length"], 6_000);
    assert_eq!(completed["full_result"], json!(long));
}
