//! Agents in processes of their own: small shell scripts that know their lines.

use super::*;
use crate::agents::policy::{Mode, Policy};

/// Answers the first two requests, then does `then` at the first prompt.
fn agent(then: &str) -> Settings {
    let script = format!(
        r#"read -r _; echo '{{"id":0,"result":{{"protocolVersion":1}}}}'
           read -r _; echo '{{"id":1,"result":{{"sessionId":"s"}}}}'
           read -r _; {then}"#
    );
    shell(&script)
}

fn shell(script: &str) -> Settings {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    settings(command)
}

fn settings(command: Vec<String>) -> Settings {
    let policy = Policy { mode: Mode::AcceptEdits, denied: vec![], root: "/".into() };
    Settings { command, env: vec![], env_removed: vec![], cwd: "/".into(), resume: None, policy }
}

async fn hear(mut running: Running) -> Vec<Tell> {
    let mut heard = Vec::new();
    let listen = async {
        while let Some(tell) = running.tells.recv().await {
            heard.push(tell);
        }
    };
    timeout(PATIENCE, listen).await.expect("it ends");
    heard
}

async fn prompt(settings: Settings) -> Vec<Tell> {
    let running = start(settings);
    let say = Say { uuid: Uuid::from_u128(1), text: "go".to_owned() };
    running.asks.send(Ask::Say(say)).await.unwrap();
    hear(running).await
}

fn end(heard: &[Tell]) -> &End {
    match heard.last() {
        Some(Tell::Ended(end)) => end,
        other => panic!("the last is {other:?}"),
    }
}

fn error(heard: &[Tell]) -> &Event {
    let error = heard.iter().find_map(|tell| match tell {
        Tell::Event(event) if event.event_type == "agent.error" => Some(event),
        _ => None,
    });
    error.expect("an error was told")
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_is_said_to_be_so() {
    let command = vec!["/nowhere/agent".to_owned()];
    let heard = hear(start(settings(command))).await;
    assert!(
        matches!(end(&heard), End::NotStarted { reason } if reason.contains("/nowhere/agent")),
        "{heard:?}"
    );
    assert_eq!(error(&heard).data["phase"], "initialization");
    let heard = hear(start(shell("echo 'no key' >&2; exit 4"))).await;
    assert!(matches!(end(&heard), End::NotStarted { reason } if reason.contains("exit code 4")), "{heard:?}");
    assert_eq!(error(&heard).data["stderr_tail"], "no key");
}

#[tokio::test]
async fn an_agent_that_wants_somebody_to_sign_in_is_not_waited_for() {
    let script = r#"read -r _; echo '{"id":0,"result":{"protocolVersion":1}}'
        read -r _; echo '{"id":1,"error":{"code":-32000,"message":"Authentication required"}}'; sleep 1000"#;
    let heard = hear(start(shell(script))).await;
    assert!(matches!(end(&heard), End::NotStarted { reason } if reason.contains("signed in")), "{heard:?}");
}

#[tokio::test]
async fn an_agent_that_speaks_another_version_is_left() {
    let heard =
        hear(start(shell(r#"read -r _; echo '{"id":0,"result":{"protocolVersion":2}}'; sleep 1000"#))).await;
    assert!(matches!(end(&heard), End::NotStarted { reason } if reason.contains("version 2")), "{heard:?}");
}

#[tokio::test]
async fn being_killed_is_told_apart_from_leaving() {
    let heard = prompt(agent("echo gone >&2; kill -9 $$")).await;
    assert_eq!(end(&heard), &End::Killed { signal: 9, out_of_memory: false });
    assert_eq!(error(&heard).data["stderr_tail"], "gone");
    let receipts = heard.iter().filter_map(|tell| match tell {
        Tell::Receipt { state, .. } => Some(*state),
        _ => None,
    });
    let receipts: Vec<State> = receipts.collect();
    assert_eq!(receipts, [State::Delivered, State::Started, State::Cancelled]);
    assert_eq!(end(&prompt(agent("exit 1")).await), &End::Left { code: 1 });
}

/// What it has started holds its standard output: that must not keep it alive.
#[tokio::test]
async fn the_end_of_an_agent_is_noticed_though_its_children_live() {
    let heard = prompt(agent("sleep 1000 & exit 3")).await;
    assert_eq!(end(&heard), &End::Left { code: 3 });
}

#[tokio::test]
async fn an_agent_that_is_asked_to_stop_leaves_by_itself_or_is_killed() {
    let running = start(agent("exit 0"));
    running.asks.send(Ask::Stop).await.unwrap();
    assert_eq!(end(&hear(running).await), &End::Left { code: 0 });
    let running = start(shell("trap '' TERM; sleep 1000 & while :; do wait; done"));
    running.asks.send(Ask::Stop).await.unwrap();
    assert_eq!(end(&hear(running).await), &End::Killed { signal: 9, out_of_memory: false });
}

#[tokio::test]
async fn an_agent_that_nobody_asks_any_more_is_stopped() {
    let Running { asks, mut tells } = start(agent("exit 0"));
    drop(asks);
    let listen = async { while tells.recv().await.is_some() {} };
    timeout(PATIENCE, listen).await.expect("it ends");
}
