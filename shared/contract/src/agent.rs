//! The names of agents: in tickets and tasks, and in a worker's `AGENT`.

/// A name of an agent. Tickets and workers parse it here, so that a ticket is accepted only if its worker knows the
/// agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentName<'a> {
    Claude,
    /// Short for `acp:openhands acp`.
    OpenHands,
    /// The command line of an agent that speaks the Agent Client Protocol.
    Acp(&'a str),
    /// The name or path of a script.
    Scripted(&'a str),
}

impl<'a> AgentName<'a> {
    /// All names, for errors.
    pub const ALL: &'static str = "claude, openhands, acp:<command> or scripted:<file>";

    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "claude" => Some(Self::Claude),
            None if text == "openhands" => Some(Self::OpenHands),
            Some(("acp", command)) if !command.trim().is_empty() => Some(Self::Acp(command)),
            Some(("scripted", script)) if !script.is_empty() => Some(Self::Scripted(script)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_and_unknown_names_are_rejected() {
        assert_eq!(AgentName::parse("acp:gemini --acp"), Some(AgentName::Acp("gemini --acp")));
        assert_eq!(AgentName::parse("scripted:a:b"), Some(AgentName::Scripted("a:b")));
        for bad in ["", "other", "acp", "acp:", "acp: ", "scripted:", "claude:x", "Claude"] {
            assert_eq!(AgentName::parse(bad), None, "{bad:?}");
        }
    }
}
