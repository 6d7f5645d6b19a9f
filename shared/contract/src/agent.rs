//! The names of agents, as tickets and tasks spell them.

/// A name of an agent, and its argument. A worker's `AGENT` has the same syntax, but each program that contains a worker
/// has its own list of agents: `sunaba` has all of these, `sunaba-worker` only [`OF_EVERY_WORKER`](Self::OF_EVERY_WORKER).
/// A test in `local` compares the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentName<'a> {
    /// The part before the colon.
    pub kind: &'static str,
    /// The part after it.
    pub argument: Option<&'a str>,
}

/// Each kind of agent, and what follows its colon. `openhands` is short for `acp:openhands acp`.
const KINDS: [(&str, Option<&str>); 4] =
    [("claude", None), ("openhands", None), ("acp", Some("<command>")), ("scripted", Some("<file>"))];

impl<'a> AgentName<'a> {
    /// The kinds that every worker has.
    pub const OF_EVERY_WORKER: [&'static str; 3] = ["claude", "openhands", "acp"];

    pub fn parse(text: &'a str) -> Option<Self> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        let (kind, expected) = KINDS.into_iter().find(|(kind, _)| *kind == name)?;
        let is_complete = match argument {
            Some(argument) => expected.is_some() && !argument.trim().is_empty(),
            None => expected.is_none(),
        };
        is_complete.then_some(Self { kind, argument })
    }

    pub fn kinds() -> impl Iterator<Item = &'static str> {
        KINDS.into_iter().map(|(kind, _)| kind)
    }

    /// All names, for errors: `claude, openhands, acp:<command> or scripted:<file>`.
    pub fn all() -> String {
        let names = KINDS.map(|(kind, argument)| match argument {
            Some(argument) => format!("{kind}:{argument}"),
            None => kind.to_owned(),
        });
        either(&names)
    }

    /// A regular expression of all names, for documents.
    pub fn pattern() -> String {
        let names = KINDS.map(|(kind, argument)| match argument {
            Some(_) => format!(r"{kind}:.*\S.*"),
            None => kind.to_owned(),
        });
        format!("^({})$", names.join("|"))
    }
}

/// Joins names for an error: `a, b or c`.
pub fn either(names: &[String]) -> String {
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_and_unknown_names_are_rejected() {
        let parsed = |text| AgentName::parse(text).map(|name| (name.kind, name.argument));
        assert_eq!(parsed("claude"), Some(("claude", None)));
        assert_eq!(parsed("acp:gemini --acp"), Some(("acp", Some("gemini --acp"))));
        assert_eq!(parsed("scripted:a:b"), Some(("scripted", Some("a:b"))));
        for bad in
            ["", "other", "acp", "acp:", "acp: ", "scripted:", "scripted: ", "claude:", "claude:x", "Claude"]
        {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_joined_with_or() {
        let joined =
            |names: &[&str]| either(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(joined(&[]), "");
        assert_eq!(joined(&["a"]), "a");
        assert_eq!(joined(&["a", "b"]), "a or b");
        assert_eq!(joined(&["a", "b", "c"]), "a, b or c");
    }

    #[test]
    fn every_worker_has_some_of_the_agents() {
        assert!(AgentName::OF_EVERY_WORKER.iter().all(|kind| AgentName::kinds().any(|known| known == *kind)));
        assert_eq!(AgentName::all(), "claude, openhands, acp:<command> or scripted:<file>");
        assert_eq!(AgentName::pattern(), r"^(claude|openhands|acp:.*\S.*|scripted:.*\S.*)$");
    }
}
