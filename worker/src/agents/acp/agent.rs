//! ACP agents as [`Agent`]s.

use super::{Settings, start};
use crate::agents::{Agent, AgentHandle, AgentKind, KeyForm, Launch, Service, find_program};
use crate::config::variables::DefaultValue::Unset;
use crate::config::variables::variable;
use crate::config::{Problem, Reader};

/// Any agent that speaks the Agent Client Protocol.
pub const ACP: AgentKind = AgentKind {
    name: "acp",
    argument: Some("<command>"),
    title: "Agents that speak the Agent Client Protocol",
    variables: &[
        variable("OPENAI_API_KEY", Unset, "Key of OpenAI's API; the agent does not receive it"),
        variable(
            "OPENAI_BASE_URL",
            Unset,
            "URL of OpenAI's API; the worker forwards to it. Default with a key: https://api.openai.com/v1",
        ),
    ],
    secrets: &["OPENAI_API_KEY"],
    prefixes: &[],
    urls: &["OPENAI_BASE_URL"],
    services: &[Service {
        name: "openai",
        url: "OPENAI_BASE_URL",
        default_url: |_| OPENAI_API,
        keys: &[("OPENAI_API_KEY", KeyForm::Bearer)],
    }],
    directories: &[],
    configure,
    program: None,
};

/// Short for `acp:openhands acp`.
pub const OPENHANDS: AgentKind = AgentKind {
    name: "openhands",
    argument: None,
    title: "OpenHands",
    variables: &[
        variable("LLM_API_KEY", Unset, "Key of the model API of OpenHands; the agent does not receive it"),
        variable(
            "LLM_BASE_URL",
            Unset,
            "URL of the model API of OpenHands; the worker forwards to it. Default with a key: that of Anthropic or OpenAI, by LLM_MODEL",
        ),
        variable("LLM_MODEL", Unset, "Model of OpenHands, such as anthropic/claude-sonnet-4-5"),
    ],
    secrets: &["LLM_API_KEY"],
    urls: &["LLM_BASE_URL"],
    services: &[Service {
        name: "llm",
        url: "LLM_BASE_URL",
        default_url: default_llm_url,
        keys: &[("LLM_API_KEY", KeyForm::Bearer), ("LLM_API_KEY", KeyForm::ApiKey)],
    }],
    configure: |reader, _| configure(reader, "openhands acp"),
    ..ACP
};

const OPENAI_API: &str = "https://api.openai.com/v1";

/// OpenHands names the provider in the name of the model.
fn default_llm_url(reader: &Reader<'_>) -> &'static str {
    let model = reader.text("LLM_MODEL").unwrap_or_default();
    if model.starts_with("anthropic/") { "https://api.anthropic.com" } else { OPENAI_API }
}

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
            launcher: launch.launcher,
            cwd: launch.cwd,
            resume: launch.session,
            policy: launch.policy,
        })
    }
}
