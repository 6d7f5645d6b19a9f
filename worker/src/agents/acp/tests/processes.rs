//! Agents in separate processes: small shell scripts with fixed responses.

use super::*;
use crate::agents::policy::{Mode, Policy};
use crate::confinement::unconfined;

/// Answers the first two requests, then runs `on_prompt` at the first prompt.
fn agent(on_prompt: &str) -> Settings {
    let script = format!(
        r#"read -r _; echo '{{"id":0,"result":{{"protocolVersion":1}}}}'
           read -r _; echo '{{"id":1,"result":{{"sessionId":"s"}}}}'
           read -r _; {on_prompt}"#
    );
    shell(&script)
}

fn shell(script: &str) -> Settings {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    settings(command)
}

fn settings(command: Vec<String>) -> Settings {
    let policy = Policy { mode: Mode::AcceptEdits, denied: vec![], root: "/".into() };
    Settings {
        command,
        launcher: unconfined(),
        env: vec![],
        cwd: "/".into(),
        resume: None,
        meta: None,
        policy,
    }
}

async fn collect(mut running: AgentHandle) -> Vec<AgentOutput> {
    let mut received = Vec::new();
    let collect = async {
        while let Some(output) = running.outputs.recv().await {
            received.push(output);
        }
    };
    timeout(TIMEOUT, collect).await.expect("the agent exits");
    received
}

async fn prompt(settings: Settings) -> Vec<AgentOutput> {
    let running = start(settings);
    let message = UserMessage { uuid: Uuid::from_u128(1), text: "go".to_owned() };
    running.commands.send(AgentCommand::Message(message)).await.unwrap();
    collect(running).await
}

fn exit(received: &[AgentOutput]) -> &ExitReason {
    match received.last() {
        Some(AgentOutput::Exited(exit)) => exit,
        other => panic!("the last output is {other:?}"),
    }
}

fn error(received: &[AgentOutput]) -> &Event {
    let error = received.iter().find_map(|output| match output {
        AgentOutput::Event(event) if event.event_type == "agent.error" => Some(event),
        _ => None,
    });
    error.expect("an error was emitted")
}

#[tokio::test]
async fn startup_failure_is_reported() {
    let command = vec!["/nowhere/agent".to_owned()];
    let received = collect(start(settings(command))).await;
    assert!(
        matches!(exit(&received), ExitReason::NotStarted { reason } if reason.contains("/nowhere/agent")),
        "{received:?}"
    );
    assert_eq!(error(&received).data["phase"], "initialization");
    let received = collect(start(shell("echo 'no key' >&2; exit 4"))).await;
    assert!(
        matches!(exit(&received), ExitReason::NotStarted { reason } if reason.contains("exit code 4")),
        "{received:?}"
    );
    assert_eq!(error(&received).data["stderr_tail"], "no key");
}

#[tokio::test]
async fn agent_without_authentication_is_not_started() {
    let script = r#"read -r _; echo '{"id":0,"result":{"protocolVersion":1}}'
        read -r _; echo '{"id":1,"error":{"code":-32000,"message":"Authentication required"}}'; sleep 1000"#;
    let received = collect(start(shell(script))).await;
    assert!(
        matches!(exit(&received), ExitReason::NotStarted { reason } if reason.contains("signed in")),
        "{received:?}"
    );
}

#[tokio::test]
async fn unsupported_protocol_version_is_not_started() {
    let received =
        collect(start(shell(r#"read -r _; echo '{"id":0,"result":{"protocolVersion":2}}'; sleep 1000"#)))
            .await;
    assert!(
        matches!(exit(&received), ExitReason::NotStarted { reason } if reason.contains("version 2")),
        "{received:?}"
    );
}

#[tokio::test]
async fn exit_and_kill_are_distinguished() {
    let received = prompt(agent("echo fatal >&2; kill -9 $$")).await;
    assert_eq!(exit(&received), &ExitReason::Killed { signal: 9, out_of_memory: false });
    assert_eq!(error(&received).data["stderr_tail"], "fatal");
    let receipts = received.iter().filter_map(|output| match output {
        AgentOutput::Receipt { state, .. } => Some(*state),
        _ => None,
    });
    let receipts: Vec<State> = receipts.collect();
    assert_eq!(receipts, [State::Delivered, State::Started, State::Cancelled]);
    assert_eq!(exit(&prompt(agent("exit 1")).await), &ExitReason::Exited { code: 1 });
}

/// A descendant that holds standard output must not delay the exit.
#[tokio::test]
async fn exit_is_detected_while_descendants_run() {
    let received = prompt(agent("sleep 1000 & exit 3")).await;
    assert_eq!(exit(&received), &ExitReason::Exited { code: 3 });
}

#[tokio::test]
async fn stop_kills_an_agent_that_does_not_exit() {
    let running = start(agent("exit 0"));
    running.commands.send(AgentCommand::Stop).await.unwrap();
    assert_eq!(exit(&collect(running).await), &ExitReason::Exited { code: 0 });
    let running = start(shell("trap '' TERM; sleep 1000 & while :; do wait; done"));
    running.commands.send(AgentCommand::Stop).await.unwrap();
    assert_eq!(exit(&collect(running).await), &ExitReason::Killed { signal: 9, out_of_memory: false });
}

#[tokio::test]
async fn dropping_the_command_channel_stops_the_agent() {
    let AgentHandle { commands, mut outputs, .. } = start(agent("exit 0"));
    drop(commands);
    let collect = async { while outputs.recv().await.is_some() {} };
    timeout(TIMEOUT, collect).await.expect("the agent exits");
}
