//! The agents of `sunaba worker`.

use worker::agents::AgentKind;

/// Those of the worker, and scripts, for demos and tests without a model.
pub fn agents() -> Vec<&'static AgentKind> {
    [worker::agents::AGENTS, &[&scripted_agent::SCRIPTED]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::AgentName;
    use worker::agents::{find, names};

    /// A ticket is accepted only if a worker knows the agent.
    #[test]
    fn tickets_name_exactly_the_agents_of_workers() {
        let agents = agents();
        assert_eq!(names(&agents), AgentName::ALL, "change contract/src/agent.rs");
        for text in
            ["claude", "openhands", "acp:a b", "scripted:x:y", "acp", "acp:", "claude:", "claude:x", "gpt"]
        {
            assert_eq!(find(&agents, text).is_some(), AgentName::parse(text).is_some(), "{text}");
        }
    }
}
