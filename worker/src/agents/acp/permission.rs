//! Who may do what: there is nobody at the terminal to be asked, so a policy answers.

use agent_client_protocol_schema::v1::ToolKind;
use serde_json::Value;

/// What the agent may do without asking anybody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionPolicy {
    /// In general.
    pub mode: Mode,
    /// Tools that are let through in every mode but [`Mode::Plan`], by name. A name with a condition (`Bash(git:*)`)
    /// lets nothing through, since ACP does not say enough to judge it.
    pub allowed_tools: Vec<String>,
    /// Tools that are never let through, by name. A condition is not looked at: the whole tool is meant.
    pub disallowed_tools: Vec<String>,
}

/// What is let through in general, by the names that Claude Code has for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// `default`: what changes nothing.
    #[default]
    Default,
    /// `acceptEdits`: also what changes files.
    AcceptEdits,
    /// `bypassPermissions`: everything.
    BypassPermissions,
    /// `plan`: nothing.
    Plan,
    /// `dontAsk`: only what is allowed by name.
    DontAsk,
}

impl Mode {
    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Default,
            "acceptEdits" => Self::AcceptEdits,
            "bypassPermissions" => Self::BypassPermissions,
            "plan" => Self::Plan,
            "dontAsk" => Self::DontAsk,
            _ => return None,
        })
    }
}

/// The way out that was chosen of those that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The option's id.
    pub option_id: String,
    /// Whether it lets the tool through.
    pub allowed: bool,
}

impl PermissionPolicy {
    /// Chooses one of the options. `None` if none of them rejects, and none may be chosen that allows.
    pub fn choose(&self, tool: &str, kind: ToolKind, options: &[Value]) -> Option<Choice> {
        let option = |kinds: [&str; 2], allowed: bool| {
            let of_kind = |kind| options.iter().find(move |option| option["kind"] == kind);
            let option = kinds.into_iter().find_map(of_kind)?;
            Some(Choice { option_id: option["optionId"].as_str()?.to_owned(), allowed })
        };
        let allow = self.allows(tool, kind).then(|| option(["allow_once", "allow_always"], true)).flatten();
        allow.or_else(|| option(["reject_once", "reject_always"], false))
    }

    fn allows(&self, tool: &str, kind: ToolKind) -> bool {
        let denied = |entry: &String| is_named(entry.split('(').next().unwrap_or_default().trim(), tool);
        if self.mode == Mode::Plan || self.disallowed_tools.iter().any(denied) {
            return false;
        }
        if self.allowed_tools.iter().any(|entry| is_named(entry, tool)) {
            return true;
        }
        let reads = matches!(kind, ToolKind::Read | ToolKind::Search | ToolKind::Think);
        let edits = matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move);
        match self.mode {
            Mode::BypassPermissions => true,
            Mode::AcceptEdits => reads || edits,
            Mode::Default => reads,
            Mode::Plan | Mode::DontAsk => false,
        }
    }
}

fn is_named(entry: &str, tool: &str) -> bool {
    entry.eq_ignore_ascii_case(tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(kinds: &[&str]) -> Vec<Value> {
        kinds
            .iter()
            .map(|kind| json!({ "optionId": format!("o-{kind}"), "name": "x", "kind": kind }))
            .collect()
    }

    #[track_caller]
    fn check(policy: &PermissionPolicy, tool: &str, kind: ToolKind, expected: &str) {
        let options = options(&["sometimes", "allow_always", "allow_once", "reject_once"]);
        let choice = policy.choose(tool, kind, &options).unwrap();
        assert_eq!(choice.option_id, expected, "{policy:?} {tool}");
    }

    #[test]
    fn every_mode_lets_through_what_it_says() {
        let (yes, no) = ("o-allow_once", "o-reject_once");
        for (mode, read, edit, execute) in [
            ("default", yes, no, no),
            ("acceptEdits", yes, yes, no),
            ("bypassPermissions", yes, yes, yes),
            ("plan", no, no, no),
            ("dontAsk", no, no, no),
        ] {
            let mode = Mode::from_name(mode).unwrap();
            let policy = PermissionPolicy { mode, ..PermissionPolicy::default() };
            check(&policy, "Read", ToolKind::Read, read);
            check(&policy, "Edit", ToolKind::Edit, edit);
            check(&policy, "Bash", ToolKind::Execute, execute);
        }
    }

    #[test]
    fn names_win_over_the_mode_and_denials_over_names() {
        let policy = PermissionPolicy {
            mode: Mode::DontAsk,
            allowed_tools: vec!["bash".to_owned(), "Fetch(domain:*)".to_owned(), "Edit".to_owned()],
            disallowed_tools: vec!["Edit(/etc/*)".to_owned()],
        };
        check(&policy, "Bash", ToolKind::Execute, "o-allow_once");
        check(&policy, "Edit", ToolKind::Edit, "o-reject_once");
        check(&policy, "Fetch", ToolKind::Fetch, "o-reject_once");
        let policy = PermissionPolicy { mode: Mode::Plan, ..policy };
        check(&policy, "Bash", ToolKind::Execute, "o-reject_once");
    }

    #[test]
    fn whatever_cannot_be_decided_is_rejected() {
        let policy = PermissionPolicy { mode: Mode::BypassPermissions, ..PermissionPolicy::default() };
        let choose = |kinds: &[&str]| policy.choose("Bash", ToolKind::Execute, &options(kinds));
        assert_eq!(choose(&["allow_always", "reject_once"]).unwrap().option_id, "o-allow_always");
        assert_eq!(choose(&["perhaps", "reject_always"]).unwrap().option_id, "o-reject_always");
        assert_eq!(choose(&["perhaps"]), None);
    }
}
