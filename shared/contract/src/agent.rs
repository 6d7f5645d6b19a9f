//! Agents. Requests name one; the operator's list (`app::orchestration::Agents`) says what the name stands for.

/// The names of agents in requests, as a regular expression.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._:-]*$";

/// Maximum length of the name of an agent.
pub const MAX_NAME_CHARS: usize = 64;

/// Whether the operator may give an agent this name: [`NAME_PATTERN`], within [`MAX_NAME_CHARS`].
pub fn is_name(text: &str) -> bool {
    let is_letter = |character: char| character.is_ascii_alphanumeric() || "._:-".contains(character);
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(is_letter)
        && text.len() <= MAX_NAME_CHARS
}

/// What a worker's `AGENT` is set to: a kind of agent, and its argument, which may be a command. Each program that
/// contains a worker has its own list of kinds: `sunaba` has all of these, `sunaba-worker` only
/// [`OF_EVERY_WORKER`](Self::OF_EVERY_WORKER). A test in `local` compares the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentDefinition<'a> {
    /// The part before the colon.
    pub kind: &'static str,
    /// The part after it.
    pub argument: Option<&'a str>,
}

/// Each kind of agent, and what follows its colon. `openhands` is short for `acp:openhands acp`.
const KINDS: [(&str, Option<&str>); 4] =
    [("claude", None), ("openhands", None), ("acp", Some("<command>")), ("scripted", Some("<file>"))];

impl<'a> AgentDefinition<'a> {
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

    /// All definitions, for errors: `claude, openhands, acp:<command> or scripted:<file>`.
    pub fn all() -> String {
        let names = KINDS.map(|(kind, argument)| match argument {
            Some(argument) => format!("{kind}:{argument}"),
            None => kind.to_owned(),
        });
        either(&names)
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
    fn names_contain_no_command() {
        for good in ["claude", "codex", "scripted:hello", "a.b-c_d", "7"] {
            assert!(is_name(good), "{good:?}");
        }
        for bad in ["", "acp:sh -c id", "scripted:/tmp/x", "-a", "a\nb", "a=b", "é", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn incomplete_and_unknown_definitions_are_rejected() {
        let parsed = |text| AgentDefinition::parse(text).map(|name| (name.kind, name.argument));
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
        assert!(
            AgentDefinition::OF_EVERY_WORKER
                .iter()
                .all(|kind| AgentDefinition::kinds().any(|known| known == *kind))
        );
        assert_eq!(AgentDefinition::all(), "claude, openhands, acp:<command> or scripted:<file>");
    }
}
