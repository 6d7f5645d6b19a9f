//! One whole conversation, from what the agent wrote to what is told of it.
//!
//! `conversation.txt` holds the agent's lines as they are on the wire, and in between what it is asked;
//! `conversation.snapshot` what becomes of them. `UPDATE_SNAPSHOTS=1 cargo test -p worker golden` writes it anew.

use super::*;
use crate::agents::policy::{Mode, Policy};
use std::fmt::Write;
use std::fs;
use std::path::Path;

#[tokio::test]
async fn a_whole_conversation_becomes_these_events() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agents/acp/tests");
    let told = tell(&fs::read_to_string(folder.join("conversation.txt")).unwrap());
    // The snapshot survives a release.
    let version = concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\"");
    let told = told.replace(version, "\"version\":\"<workspace>\"");
    let snapshot = folder.join("conversation.snapshot");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&snapshot, &told).unwrap();
    }
    let expected = fs::read_to_string(&snapshot).unwrap_or_default();
    let differs = told.lines().zip(expected.lines()).find(|(told, expected)| told != expected);
    assert!(
        told == expected,
        "first difference: {differs:#?}\nIf this is meant, run UPDATE_SNAPSHOTS=1 cargo test -p worker golden, and \
         look at the change of {}",
        snapshot.display()
    );
}

fn tell(conversation: &str) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(temporary.path()).unwrap();
    let terms = Terms {
        cwd: "/workspace".into(),
        resume: None,
        policy: Policy { mode: Mode::AcceptEdits, denied: vec![], root: "/workspace".into() },
        stderr: Tail::default(),
    };
    let mut session =
        Session::new(terms, Narrator::new(Terminals::new(workspace, vec![], vec![]), "/workspace".into()));
    let mut out = String::new();
    let mut said = 0;
    show(&mut session, &mut out);
    for line in conversation.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        writeln!(out, "\n< {line}").unwrap();
        if let Some(text) = line.strip_prefix("say ") {
            said += 1;
            session.ask(Ask::Say(Say { uuid: Uuid::from_u128(said), text: text.to_owned() }));
        } else if line == "interrupt" {
            session.ask(Ask::Interrupt { cancel_queued: false });
        } else {
            rpc::parse(line.as_bytes()).into_iter().for_each(|incoming| session.incoming(incoming));
        }
        show(&mut session, &mut out);
    }
    out
}

fn show(session: &mut Session, out: &mut String) {
    for line in session.lines() {
        writeln!(out, "> {line}").unwrap();
    }
    for tell in session.tells().drain(..) {
        let line = match tell {
            Tell::Event(event) => format!("{} {} {}", event.event_type, id(&event.id), data(event.data)),
            Tell::Partial(part) => {
                format!("partial {} {}+{} {:?}", part.kind, part.block, part.offset, part.text)
            }
            Tell::Receipt { uuid, state } => format!("receipt {} {state:?}", uuid.as_u128()),
            Tell::TurnEnded(end) => format!("turn ended: success={} result={:?}", end.success, end.result),
            Tell::ToolEnded { tool_use_id, turn, .. } => format!("tool ended: {tool_use_id} in turn {turn}"),
            other => format!("{other:?}"),
        };
        writeln!(out, "  {line}").unwrap();
    }
}

/// Made-up names are different each time; the others are not.
fn id(id: &str) -> &str {
    let version = Uuid::parse_str(id).ok().map(|id| id.get_version_num());
    if version == Some(7) { "(made up)" } else { id }
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
