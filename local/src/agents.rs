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
    use worker::agents::{AGENTS, find, names};

    /// The plane and the worker are separate programs, and each has its list.
    #[test]
    fn tickets_name_exactly_the_agents_of_workers() {
        let agents = agents();
        assert_eq!(names(&agents), AgentName::all(), "change contract/src/agent.rs");
        let of_every_worker: Vec<&str> = AGENTS.iter().map(|kind| kind.name).collect();
        assert_eq!(of_every_worker, AgentName::OF_EVERY_WORKER, "change contract/src/agent.rs");
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
            assert_eq!(find(&agents, text).is_some(), AgentName::parse(text).is_some(), "{text:?}");
        }
    }
}
