//! Conversations with agents that play a script.

mod golden;
mod processes;

use super::*;
use crate::agents::policy::{Mode, Policy};
use crate::agents::{Mood, Say};
use domain::message::State;
use kit::acp::{Record, Script, Step};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::duplex;
use tokio::task::JoinHandle;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(20);

/// A conversation in which both sides are in this process.
struct Conversation {
    folder: TempDir,
    asks: mpsc::Sender<Ask>,
    tells: mpsc::Receiver<Tell>,
    record: Record,
    heard: Vec<Tell>,
    task: JoinHandle<()>,
}

fn script(value: Value) -> Script {
    serde_json::from_value(value).expect("the script can be understood")
}

fn begin(script: Script) -> Conversation {
    begin_with(script, Mode::BypassPermissions, None, tempfile::tempdir().unwrap())
}

fn begin_with(script: Script, mode: Mode, resume: Option<&str>, folder: TempDir) -> Conversation {
    let (asks, mut heard) = mpsc::channel(8);
    let (told, tells) = mpsc::channel(8);
    let (agent_reads, writer) = duplex(4096);
    let (reader, agent_writes) = duplex(4096);
    let record = Record::default();
    let workspace = Workspace::open(folder.path()).unwrap();
    let host = Host { workspace: workspace.clone(), terminals: Terminals::new(workspace, vec![], vec![]) };
    let terms = Terms {
        cwd: folder.path().to_owned(),
        resume: resume.map(str::to_owned),
        policy: Policy { mode, denied: vec![], root: folder.path().to_owned() },
        stderr: Tail::default(),
    };
    let agent = kit::acp::serve(agent_reads, agent_writes, script, Record::clone(&record));
    let host_root = folder.path().to_owned();
    let task = tokio::spawn(async move {
        let agent = tokio::spawn(agent);
        let mut session = Session::new(terms, Narrator::new(host.terminals.clone(), host_root));
        converse(reader, writer, &mut session, &host, &mut heard, &told).await;
        session.end("exit code 1");
        while let Some(tell) = session.tells().pop_front() {
            told.send(tell).await.unwrap();
        }
        host.terminals.close().await;
        agent.abort();
    });
    Conversation { folder, asks, tells, record, heard: Vec::new(), task }
}

impl Conversation {
    async fn ask(&self, ask: Ask) {
        self.asks.send(ask).await.expect("the conversation goes on");
    }

    async fn say(&self, number: u128, text: &str) {
        self.ask(Ask::Say(Say { uuid: Uuid::from_u128(number), text: text.to_owned() })).await;
    }

    async fn until(&mut self, what: &str, is_it: impl Fn(&Tell) -> bool) {
        let wait = async {
            while let Some(tell) = self.tells.recv().await {
                let found = is_it(&tell);
                self.heard.push(tell);
                if found {
                    return;
                }
            }
            panic!("the conversation ended before {what}: {:#?}", self.heard);
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"));
    }

    async fn until_receipt(&mut self, number: u128, state: State) {
        let wanted = Uuid::from_u128(number);
        let is_it =
            |tell: &Tell| matches!(tell, Tell::Receipt { uuid, state: s } if *uuid == wanted && *s == state);
        self.until(&format!("{state:?} of {number}"), is_it).await;
    }

    async fn until_idle(&mut self) {
        self.until("rest", |tell| matches!(tell, Tell::Mood(Mood::Idle))).await;
    }

    /// Everything until its end, which somebody else must have caused.
    async fn rest(&mut self) {
        let rest = async {
            while let Some(tell) = self.tells.recv().await {
                self.heard.push(tell);
            }
            (&mut self.task).await.expect("the conversation does not panic");
        };
        timeout(PATIENCE, rest).await.expect("it ends");
    }

    async fn stop(&mut self) {
        self.ask(Ask::Stop).await;
        self.rest().await;
    }

    fn events(&self, event_type: &str) -> Vec<&Event> {
        let events = self.heard.iter().filter_map(|tell| match tell {
            Tell::Event(event) if event.event_type == event_type => Some(event),
            _ => None,
        });
        events.collect()
    }

    fn receipts(&self) -> Vec<(u128, State)> {
        let receipts = self.heard.iter().filter_map(|tell| match tell {
            Tell::Receipt { uuid, state } => Some((uuid.as_u128(), *state)),
            _ => None,
        });
        receipts.collect()
    }

    fn interrupted(&self) -> Vec<Vec<u128>> {
        let interrupted = self.heard.iter().filter_map(|tell| match tell {
            Tell::Interrupted { cancelled } => Some(cancelled.iter().map(Uuid::as_u128).collect()),
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

    /// What the agent was answered.
    fn answers(&self) -> Vec<Value> {
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
async fn a_prompt_is_worked_on_and_its_chunks_are_joined() {
    let mut talk = begin(script(json!({ "turns": [[text("Hel"), text("lo")]] })));
    talk.until_idle().await;
    talk.say(1, "hi").await;
    talk.until_idle().await;
    talk.stop().await;
    assert_eq!(talk.receipts(), [(1, State::Delivered), (1, State::Started), (1, State::Completed)]);
    let messages = talk.events("agent.message");
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0].data["content"], &messages[0].data["turn"]), (&json!("Hello"), &json!(1)));
    let partials = talk.heard.iter().filter_map(|tell| match tell {
        Tell::Partial(partial) => Some((partial.offset, partial.text.as_str())),
        _ => None,
    });
    let partials: Vec<_> = partials.collect();
    assert_eq!(partials, [(0, "Hel"), (3, "lo")]);
    let end = talk.heard.iter().find_map(|tell| match tell {
        Tell::TurnEnded(end) => Some(end),
        _ => None,
    });
    let end = end.unwrap();
    assert!(end.success && end.result == "Hello" && end.session == "session-1" && end.turns == 1);
    assert_eq!(end.answered, [Uuid::from_u128(1)]);
    let initialize = &talk.sent("initialize")[0]["params"];
    assert_eq!(initialize["protocolVersion"], 1);
    assert_eq!(initialize["clientCapabilities"]["terminal"], true);
}

#[tokio::test]
async fn what_is_said_meanwhile_is_held_and_prompted_in_order() {
    use State::{Cancelled, Completed, Delivered, Started};
    let mut talk = begin(script(json!({ "turns": [["wait_for_cancel"], [], []] })));
    talk.say(1, "one").await;
    talk.until_receipt(1, Started).await;
    talk.say(2, "two").await;
    talk.say(3, "three").await;
    assert_eq!(talk.receipts().len(), 2, "what is held has no receipt");
    talk.ask(Ask::Interrupt { cancel_queued: false }).await;
    talk.until_idle().await;
    talk.stop().await;
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
    assert_eq!(talk.receipts(), expected);
    assert_eq!(talk.prompts(), ["one", "two", "three"]);
    assert_eq!(talk.interrupted(), [Vec::<u128>::new()]);
    assert_eq!(talk.sent("session/cancel").len(), 1);
}

#[tokio::test]
async fn an_interrupt_can_drop_what_is_held() {
    let mut talk = begin(script(json!({ "turns": [["wait_for_cancel"], []] })));
    talk.say(1, "one").await;
    talk.until_receipt(1, State::Started).await;
    talk.say(2, "two").await;
    talk.say(3, "three").await;
    talk.ask(Ask::Interrupt { cancel_queued: true }).await;
    talk.say(4, "four").await;
    talk.until_receipt(4, State::Completed).await;
    talk.stop().await;
    assert_eq!(talk.interrupted(), [vec![2, 3]]);
    assert_eq!(talk.prompts(), ["one", "four"]);
    assert!(
        talk.receipts().contains(&(1, State::Cancelled)) && talk.receipts().contains(&(3, State::Cancelled))
    );
}

#[tokio::test]
async fn an_interrupt_of_nothing_is_answered_at_once() {
    let mut talk = begin(Script::default());
    talk.until_idle().await;
    talk.ask(Ask::Interrupt { cancel_queued: true }).await;
    talk.until("an interrupt", |tell| matches!(tell, Tell::Interrupted { .. })).await;
    talk.stop().await;
    assert!(talk.sent("session/cancel").is_empty());
}

#[tokio::test]
async fn tools_that_a_cancelled_turn_leaves_open_are_ended() {
    let tool = json!({ "update": { "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "kind": "execute",
        "rawInput": { "command": "make" } } });
    let mut talk = begin(script(json!({ "turns": [[tool, "wait_for_cancel"]] })));
    talk.say(1, "go").await;
    talk.until("a tool", |tell| matches!(tell, Tell::Event(event) if event.event_type == "agent.tool_use"))
        .await;
    talk.ask(Ask::Interrupt { cancel_queued: false }).await;
    talk.until_idle().await;
    talk.stop().await;
    let completed = talk.events("agent.tool_completed");
    assert_eq!(
        (&completed[0].data["tool_use_id"], &completed[0].data["is_error"]),
        (&json!("c1"), &json!(true))
    );
    let turn = talk.events("agent.turn_completed")[0];
    assert_eq!((&turn.data["stop_reason"], &turn.data["success"]), (&json!("cancelled"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ignores_an_interrupt_is_complained_about_and_waited_for() {
    let mut talk = begin(script(json!({ "turns": [[{ "sleep": { "ms": 15_000 } }, text("done")]] })));
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Started).await;
    talk.ask(Ask::Interrupt { cancel_queued: false }).await;
    talk.until_idle().await;
    talk.stop().await;
    let errors = talk.events("agent.error");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].data["phase"], "interrupt");
    assert_eq!(talk.interrupted().len(), 1);
    assert!(talk.receipts().contains(&(1, State::Completed)), "it has ended by itself");
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
    let mut talk = begin_with(script, mode, None, tempfile::tempdir().unwrap());
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Completed).await;
    talk.stop().await;
    assert_eq!(talk.events("agent.tool_use").len(), 1, "what it asks for is told");
    let told = talk.events("agent.permission_decided").last().unwrap().data["decision"].clone();
    (talk.answers()[0]["result"]["outcome"].clone(), told)
}

#[tokio::test]
async fn permissions_are_answered_by_the_mode() {
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
async fn a_permission_that_is_wanted_after_an_interrupt_is_cancelled() {
    let params = json!({ "toolCall": { "toolCallId": "c1" }, "options": [] });
    let mut script = Script::default();
    script.turns.push_back(vec![Step::WaitForCancel, call("session/request_permission", params)]);
    let mut talk = begin(script);
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Started).await;
    talk.ask(Ask::Interrupt { cancel_queued: false }).await;
    talk.until_idle().await;
    talk.stop().await;
    assert_eq!(talk.answers()[0]["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[tokio::test]
async fn files_and_terminals_are_of_the_workspace_only_and_unknown_methods_are_said_to_be() {
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
    let mut talk = begin_with(script, Mode::Default, None, folder);
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Completed).await;
    talk.stop().await;
    let answers = talk.answers();
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["result"], json!({ "content": "two\n" }));
    assert!(answers[2]["error"]["message"].as_str().unwrap().contains("outside of the workspace"));
    assert_eq!(answers[4]["result"]["exitCode"], 0);
    assert_eq!(answers[5]["result"]["output"], "two\n");
    assert_eq!(answers[5]["result"]["truncated"], true);
    assert_eq!(answers[7]["error"]["code"], -32602);
    assert_eq!(
        (&answers[8]["error"]["code"], &answers[9]["error"]["code"]),
        (&json!(-32601), &json!(-32601))
    );
    assert!(talk.folder.path().join("new/a.txt").exists());
}

#[tokio::test]
async fn a_loaded_session_is_not_told_again_and_goes_on() {
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
    let mut talk = begin_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
    talk.until_idle().await;
    assert!(talk.events("agent.message").is_empty() && talk.events("agent.tool_use").is_empty());
    talk.say(1, "go on").await;
    talk.until_idle().await;
    talk.stop().await;
    assert!(talk.sent("session/new").is_empty());
    assert_eq!(talk.events("agent.message")[0].data["content"], "Again");
    let turn = talk.events("agent.turn_completed")[0];
    assert_eq!((&turn.data["session_id"], &turn.data["cost_usd"]), (&json!("old-1"), &json!(0.5)));
}

#[tokio::test]
async fn resuming_is_preferred_to_loading() {
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } });
    let script = script(json!({ "capabilities": capabilities }));
    let mut talk = begin_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
    talk.until_idle().await;
    talk.stop().await;
    assert_eq!(talk.sent("session/resume")[0]["params"]["sessionId"], "old-1");
    assert!(talk.sent("session/load").is_empty() && talk.sent("session/new").is_empty());
}

#[tokio::test]
async fn a_session_that_cannot_be_resumed_is_said_so_and_a_new_one_begins() {
    let refuses = json!({ "code": -32002, "message": "Not found" });
    for script in [
        script(json!({})),
        script(json!({ "capabilities": { "loadSession": true }, "refuses_old": refuses })),
        script(json!({ "capabilities": { "loadSession": true, "sessionCapabilities": { "resume": {} } },
            "refuses_old": refuses })),
    ] {
        let mut talk = begin_with(script, Mode::Default, Some("old-1"), tempfile::tempdir().unwrap());
        talk.until_idle().await;
        talk.stop().await;
        assert_eq!(talk.events("agent.error")[0].data["phase"], "resume");
        assert_eq!(talk.events("agent.system_message")[0].data["metadata"]["session_id"], "session-1");
    }
}

#[tokio::test]
async fn an_agent_that_dies_in_a_turn_leaves_a_receipt_and_an_error() {
    let mut talk = begin(script(json!({ "turns": [[text("I will"), "die"]] })));
    talk.say(1, "go").await;
    talk.say(2, "and then").await;
    talk.rest().await;
    assert_eq!(talk.receipts().last(), Some(&(1, State::Cancelled)), "what was held was never given to it");
    assert_eq!(talk.events("agent.message")[0].data["content"], "I will");
    let error = &talk.events("agent.error")[0].data;
    assert!(error["error"].as_str().unwrap().contains("in the middle of a turn: exit code 1"), "{error:?}");
}

#[tokio::test]
async fn a_turn_that_fails_says_why_and_the_session_goes_on() {
    let refuse = json!({ "refuse": { "code": -32603, "message": "Internal error", "data": { "details": "no quota" } } });
    let mut talk = begin(script(json!({ "turns": [[refuse], [text("better")]] })));
    talk.say(1, "one").await;
    talk.say(2, "two").await;
    talk.until_receipt(2, State::Completed).await;
    talk.stop().await;
    assert_eq!(talk.events("agent.error")[0].data["error"], "Internal error (no quota)");
    let turns = talk.events("agent.turn_completed");
    assert_eq!((&turns[0].data["success"], &turns[1].data["success"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn what_is_not_understood_is_kept_and_breaks_nothing() {
    let steps = json!([
        { "update": { "sessionUpdate": "dream", "about": "sheep" } },
        { "update": { "sessionUpdate": "tool_call", "title": "without an id" } },
        { "line": "Debugger attached." },
        { "line": "{\"jsonrpc\":\"2.0\",\"method\":\"_kit/odd\",\"params\":{\"a\":1}}" },
        { "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "ok" }, "new": 1 } },
    ]);
    let mut talk = begin(script(json!({ "turns": [steps] })));
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Completed).await;
    talk.stop().await;
    let raw: Vec<_> = talk.events("agent.unparsed").iter().map(|event| event.data["raw"].clone()).collect();
    assert_eq!(raw[0], json!({ "sessionUpdate": "dream", "about": "sheep" }));
    assert_eq!(raw[2], "Debugger attached.");
    assert_eq!(raw.len(), 4);
    assert_eq!(talk.events("agent.message")[0].data["content"], "ok");
}

#[tokio::test]
async fn a_long_response_is_cut_and_kept_whole_beside() {
    let long = "é".repeat(6_000);
    let tool = json!({ "update": { "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "cat", "kind": "read",
        "status": "completed", "rawOutput": long } });
    let mut talk = begin(script(json!({ "turns": [[tool]] })));
    talk.say(1, "go").await;
    talk.until_receipt(1, State::Completed).await;
    talk.stop().await;
    let completed = &talk.events("agent.tool_completed")[0].data;
    assert_eq!(completed["tool_response"].as_str().unwrap().chars().count(), 5_000);
    assert_eq!(completed["tool_response_full_length"], 6_000);
    assert_eq!(completed["full_response"], json!(long));
}
