//! The agents of `sunaba worker`, and those that tickets may name by default.

use app::orchestration::Agents;
use worker::agents::AgentKind;

/// Those of the worker, and scripts, for demos and tests without a model.
pub fn agents() -> Vec<&'static AgentKind> {
    [worker::agents::AGENTS, &[&scripted_agent::SCRIPTED]].concat()
}

/// Those that take no command, and the built-in scripts.
pub fn listed_by_default() -> Agents {
    let scripts =
        scripted_agent::BUILT_IN.map(|(name, _)| format!("{}:{name}", scripted_agent::SCRIPTED.name));
    let kinds = agents().into_iter().filter(|kind| kind.argument.is_none()).map(|kind| kind.name.to_owned());
    let names: Vec<String> = kinds.chain(scripts).collect();
    Agents::parse(&names.join(",")).expect("kinds and built-in scripts are valid names and definitions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::AgentDefinition;
    use worker::agents::{AGENTS, find, names};

    #[test]
    fn no_agent_runs_a_command_by_default() {
        let names = "claude,openhands,scripted:hello,scripted:refactor,scripted:trouble";
        assert_eq!(listed_by_default().to_string(), names);
    }

    /// The plane and the worker are separate programs, and each has its list.
    #[test]
    fn tickets_name_exactly_the_agents_of_workers() {
        let agents = agents();
        assert_eq!(names(&agents), AgentDefinition::all(), "change contract/src/agent.rs");
        let of_every_worker: Vec<&str> = AGENTS.iter().map(|kind| kind.name).collect();
        assert_eq!(of_every_worker, AgentDefinition::OF_EVERY_WORKER, "change contract/src/agent.rs");
        for text in [
            "claude",
            "openhands",
            "acp:a b",
            "scripted:x:y",
            "acp",
            "acp:",
            "acp: ",
            "scripted",
            "scripted:",
            "scripted: ",
            "claude:",
            "claude:x",
            "gpt",
        ] {
            assert_eq!(find(&agents, text).is_some(), AgentDefinition::parse(text).is_some(), "{text:?}");
        }
    }
}
