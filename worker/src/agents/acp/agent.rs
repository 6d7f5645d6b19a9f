//! ACP agents as [`Agent`]s.

use super::{Settings, start};
use crate::agents::{Agent, AgentHandle, AgentKind, KeyForm, Launch, Service, find_program, instructions};
use crate::config::variables::DefaultValue::Unset;
use crate::config::variables::variable;
use crate::config::{Problem, Reader};
use serde_json::{Value, json};
use std::path::Path;

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

fn configure(reader: &mut Reader<'_>, command: &str) -> Option<Box<dyn Agent>> {
    let command = command.split_whitespace().map(str::to_owned).collect();
    Some(Box::new(Acp { command, repository_settings: reader.allows_repository_settings() }))
}

/// Variables that make OpenCode ignore the configuration in the repository: the name of its second version, and the earlier
/// one. See its `config` and `flag` modules.
const OPENCODE: [&str; 2] = ["OPENCODE_CONFIG_PROJECT_DISABLE", "OPENCODE_DISABLE_PROJECT_CONFIG"];

/// Makes the adapter of Claude Code (`claude-agent-acp`) ignore settings of the repository, and gives it the instructions
/// that it then does not read. ACP itself has no such option; other agents ignore `_meta`.
fn without_repository_settings(workspace: &Path) -> Value {
    let mut meta = json!({ "claudeCode": { "options": { "settingSources": ["user"] } } });
    if let Some(text) = instructions::of_repository(workspace) {
        meta["systemPrompt"] = json!({ "append": text });
    }
    meta
}

#[derive(Debug)]
struct Acp {
    command: Vec<String>,
    /// Whether settings of the repository apply, as far as the agent can be configured.
    repository_settings: bool,
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
        let mut env = launch.env;
        let meta = (!self.repository_settings).then(|| without_repository_settings(&launch.cwd));
        if !self.repository_settings {
            env.extend(OPENCODE.map(|name| (name.to_owned(), "1".to_owned())));
        }
        start(Settings {
            command: self.command.clone(),
            env,
            meta,
            launcher: launch.launcher,
            cwd: launch.cwd,
            resume: launch.session,
            policy: launch.policy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapter_of_claude_code_ignores_repository_settings_and_gets_the_instructions() {
        let folder = tempfile::tempdir().unwrap();
        let meta = without_repository_settings(folder.path());
        assert_eq!(meta["claudeCode"]["options"]["settingSources"], json!(["user"]));
        assert!(meta["systemPrompt"].is_null(), "{meta}");
        std::fs::write(folder.path().join("AGENTS.md"), "Use tabs.").unwrap();
        let meta = without_repository_settings(folder.path());
        assert!(meta["systemPrompt"]["append"].as_str().unwrap().contains("Use tabs."), "{meta}");
    }
}
