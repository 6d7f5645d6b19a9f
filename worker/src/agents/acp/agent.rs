//! ACP agents as [`Agent`]s.

use super::{Settings, start};
use crate::agents::{Agent, AgentHandle, AgentKind, Launch, find_program};
use crate::config::variables::DefaultValue::Unset;
use crate::config::variables::variable;
use crate::config::{Problem, Reader};

/// Any agent that speaks the Agent Client Protocol.
pub const ACP: AgentKind = AgentKind {
    name: "acp",
    argument: Some("<command>"),
    title: "Agents that speak the Agent Client Protocol",
    variables: &[],
    secrets: &[],
    urls: &[],
    directories: &[],
    configure,
    program: None,
};

/// Short for `acp:openhands acp`.
pub const OPENHANDS: AgentKind = AgentKind {
    name: "openhands",
    argument: None,
    title: "OpenHands",
    variables: &[variable("LLM_API_KEY", Unset, "Key of the model API, for OpenHands")],
    secrets: &["LLM_API_KEY"],
    configure: |reader, _| configure(reader, "openhands acp"),
    ..ACP
};

fn configure(_reader: &mut Reader<'_>, command: &str) -> Option<Box<dyn Agent>> {
    Some(Box::new(Acp { command: command.split_whitespace().map(str::to_owned).collect() }))
}

#[derive(Debug)]
struct Acp {
    command: Vec<String>,
}

impl Agent for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn describe(&self) -> String {
        format!("ACP: {}", self.command.join(" "))
    }

    fn check(&self, path: &str) -> Result<(), Problem> {
        find_program(self.command.first().map_or("", String::as_str), path, "AGENT")
    }

    fn start(&mut self, launch: Launch) -> AgentHandle {
        start(Settings {
            command: self.command.clone(),
            env: launch.env,
            env_removed: launch.env_removed,
            cwd: launch.cwd,
            resume: launch.session,
            policy: launch.policy,
        })
    }
}
