//! One complete conversation, from the agent's lines to the outputs.
//!
//! `conversation.txt` holds the agent's lines as on the wire, and the commands that it receives.
//! `conversation.snapshot` holds the result. `UPDATE_SNAPSHOTS=1 cargo test -p worker golden` rewrites it.

use super::*;
use crate::agents::policy::{Mode, Policy};
use std::fmt::Write;
use std::fs;
use std::path::Path;

#[tokio::test]
async fn conversation_matches_the_snapshot() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agents/acp/tests");
    let actual = play(&fs::read_to_string(folder.join("conversation.txt")).unwrap());
    // Keep the snapshot independent of the release version.
    let version = concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\"");
    let actual = actual.replace(version, "\"version\":\"<workspace>\"");
    let snapshot = folder.join("conversation.snapshot");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&snapshot, &actual).unwrap();
    }
    let expected = fs::read_to_string(&snapshot).unwrap_or_default();
    let differs = actual.lines().zip(expected.lines()).find(|(actual, expected)| actual != expected);
    assert!(
        actual == expected,
        "first difference: {differs:#?}\nIf this is intended, run UPDATE_SNAPSHOTS=1 cargo test -p worker golden and \
         review the diff of {}",
        snapshot.display()
    );
}

fn play(conversation: &str) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(temporary.path()).unwrap();
    let options = SessionOptions {
        cwd: "/workspace".into(),
        resume: None,
        meta: None,
        policy: Policy { mode: Mode::AcceptEdits, denied: vec![], root: "/workspace".into() },
        stderr: StderrTail::default(),
    };
    let mut session = Session::new(
        options,
        Normalizer::new(
            Terminals::new(workspace, crate::confinement::unconfined(), vec![]),
            "/workspace".into(),
        ),
    );
    let mut out = String::new();
    let mut messages = 0;
    show(&mut session, &mut out);
    for line in conversation.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        writeln!(out, "\n< {line}").unwrap();
        if let Some(text) = line.strip_prefix("prompt ") {
            messages += 1;
            let message = UserMessage { uuid: Uuid::from_u128(messages), text: text.to_owned() };
            session.handle_command(AgentCommand::Message(message));
        } else if line == "interrupt" {
            session.handle_command(AgentCommand::Interrupt { cancel_queued: false });
        } else {
            rpc::parse(line.as_bytes()).into_iter().for_each(|incoming| session.receive(incoming));
        }
        show(&mut session, &mut out);
    }
    out
}

fn show(session: &mut Session, out: &mut String) {
    for line in session.take_lines() {
        writeln!(out, "> {line}").unwrap();
    }
    for output in session.outputs().drain(..) {
        let line = match output {
            AgentOutput::Event(event) => {
                format!("{} {} {}", event.event_type, id(&event.id), data(event.data))
            }
            AgentOutput::Partial(part) => {
                format!("partial {} {}+{} {:?}", part.kind, part.block, part.offset, part.text)
            }
            AgentOutput::Receipt { uuid, state } => format!("receipt {} {state:?}", uuid.as_u128()),
            AgentOutput::TurnEnded(end) => {
                format!("turn ended: success={} result={:?}", end.success, end.result)
            }
            AgentOutput::ToolEnded { tool_use_id, turn, .. } => {
                format!("tool ended: {tool_use_id} in turn {turn}")
            }
            other => format!("{other:?}"),
        };
        writeln!(out, "  {line}").unwrap();
    }
}

/// Random ids differ on every run; ids derived from the agent's do not.
fn id(id: &str) -> &str {
    let version = Uuid::parse_str(id).ok().map(|id| id.get_version_num());
    if version == Some(7) { "(generated)" } else { id }
}

fn data(mut data: serde_json::Map<String, Value>) -> Value {
    if data.contains_key("duration_ms") {
        data.insert("duration_ms".to_owned(), 0.into());
    }
    if let Some(message) = data.get_mut("message_id") {
        *message = id(message.as_str().unwrap()).into();
    }
    data.into()
}
