//! The agents that requests may name.
//!
//! An agent may be a command, which runs with the permissions of the worker. Therefore commands come from the operator
//! only, and a request names an entry of the operator's list.

use contract::AgentDefinition;
use contract::agent::{MAX_NAME_CHARS, is_name};
use domain::Invalid;
use std::fmt;

/// The operator's list of agents, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents {
    /// Name and definition.
    listed: Vec<(String, String)>,
    commands: Commands,
}

/// Whether requests may contain definitions, and thereby commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commands {
    Rejected,
    /// For planes whose callers are all the operator.
    Accepted,
}

impl Default for Agents {
    /// The kinds that every worker has and that take no command.
    fn default() -> Self {
        Self::parse("claude, openhands").expect("both are kinds without an argument")
    }
}

impl Agents {
    /// Parses `claude, codex=acp:codex-acp, demo=scripted:hello`. An entry without `=` is a definition whose name is the
    /// definition itself. Definitions contain no comma.
    ///
    /// # Errors
    /// A sentence about the first invalid entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut agents = Self { listed: Vec::new(), commands: Commands::Rejected };
        for entry in text.split(',').map(str::trim) {
            let (name, definition) = entry.split_once('=').unwrap_or((entry, entry));
            let (name, definition) = (name.trim(), definition.trim());
            if !is_name(name) {
                return Err(format!(
                    "{name:?} is not a name of an agent: at most {MAX_NAME_CHARS} letters, digits, '.', '_', ':' or '-'; \
                     name a command like this: codex=acp:codex-acp"
                ));
            }
            if AgentDefinition::parse(definition).is_none() {
                return Err(format!(
                    "{definition:?} is not an agent; it must be {}, or <name>= and one of these",
                    AgentDefinition::all()
                ));
            }
            if agents.find(name).is_some() {
                return Err(format!("{name:?} is listed twice"));
            }
            agents.listed.push((name.to_owned(), definition.to_owned()));
        }
        Ok(agents)
    }

    /// Also accepts definitions in requests. Only for a plane without users: a caller can run any command.
    #[must_use]
    pub fn accepting_commands(self) -> Self {
        Self { commands: Commands::Accepted, ..self }
    }

    /// Adds the operator's default agent under its own definition, unless it is listed.
    ///
    /// # Errors
    /// If it is neither listed nor a definition.
    pub fn with_default(mut self, agent: &str) -> Result<Self, Invalid> {
        match AgentDefinition::parse(agent) {
            _ if self.find(agent).is_some() => {}
            Some(_) => self.listed.push((agent.to_owned(), agent.to_owned())),
            None => return Err(self.unknown()),
        }
        Ok(self)
    }

    /// The names, in the operator's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(name, _)| name.as_str())
    }

    /// What a worker's `AGENT` is set to for an agent of a request.
    ///
    /// # Errors
    /// If the agent is not listed. The message has the names that are.
    pub fn definition<'a>(&'a self, name: &'a str) -> Result<&'a str, Invalid> {
        match self.find(name) {
            Some(definition) => Ok(definition),
            None if self.commands == Commands::Accepted && AgentDefinition::parse(name).is_some() => Ok(name),
            None => Err(self.unknown()),
        }
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.listed.iter().find(|(listed, _)| listed == name).map(|(_, definition)| definition.as_str())
    }

    fn unknown(&self) -> Invalid {
        let names: Vec<&str> = self.names().collect();
        let rule = format!(
            "must be an agent of this plane: {}. The operator lists agents with SUNABA_AGENTS",
            names.join(", ")
        );
        Invalid::new("agent", rule)
    }
}

impl fmt::Display for Agents {
    /// As [`Agents::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, definition)) in self.listed.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match name == definition {
                true => write!(f, "{comma}{name}")?,
                false => write!(f, "{comma}{name}={definition}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "claude, codex=acp:codex-acp,  gemini = acp:gemini --acp,scripted:hello";

    #[test]
    fn names_stand_for_the_operators_definitions() {
        let agents = Agents::parse(LIST).unwrap();
        for (name, definition) in [
            ("claude", "claude"),
            ("codex", "acp:codex-acp"),
            ("gemini", "acp:gemini --acp"),
            ("scripted:hello", "scripted:hello"),
        ] {
            assert_eq!(agents.definition(name).unwrap(), definition);
        }
        assert_eq!(Agents::parse(&agents.to_string()).unwrap(), agents);
        assert_eq!(Agents::default().names().collect::<Vec<_>>(), ["claude", "openhands"]);
    }

    #[test]
    fn requests_contain_no_commands() {
        let agents = Agents::parse(LIST).unwrap();
        for request in ["acp:codex-acp", "acp:sh -c id", "scripted:/tmp/x", "openhands", "", "claude "] {
            let invalid = agents.definition(request).unwrap_err();
            assert_eq!(invalid.field, "agent", "{request:?}");
            assert!(invalid.reason.contains("claude, codex, gemini, scripted:hello"), "{}", invalid.reason);
        }
        let open = agents.accepting_commands();
        assert_eq!(open.definition("acp:sh -c id").unwrap(), "acp:sh -c id");
        assert!(open.definition("robot").is_err() && open.definition("acp:").is_err());
    }

    #[test]
    fn default_agent_is_always_listed() {
        let agents = Agents::default().with_default("acp:gemini --acp").unwrap();
        assert_eq!(agents.definition("acp:gemini --acp").unwrap(), "acp:gemini --acp");
        assert!(agents.definition("acp:other").is_err());
        assert_eq!(Agents::default().with_default("claude").unwrap(), Agents::default());
        assert!(Agents::default().with_default("robot").is_err());
    }

    #[test]
    fn invalid_lists_are_explained() {
        for (text, part) in [
            ("", "not a name"),
            ("claude,", "not a name"),
            ("acp", "\"acp\" is not an agent"),
            ("acp:gemini --acp", "codex=acp:codex-acp"),
            ("codex=codex-acp", "\"codex-acp\" is not an agent"),
            ("a=claude,a=openhands", "twice"),
        ] {
            let error = Agents::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
