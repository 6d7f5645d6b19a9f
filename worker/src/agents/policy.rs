//! Whether a tool may be used when the CLI asks. There is nobody to ask in a sandbox, so rules answer, at once.

use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// How the CLI handles permissions, in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It asks about everything that changes something.
    Default,
    /// It edits files without asking.
    AcceptEdits,
    /// It only looks, and makes a plan.
    Plan,
    /// It does not ask. The CLI refuses this as root unless it is told that it is in a sandbox.
    BypassPermissions,
    /// What it would have to ask about it does not do.
    DontAsk,
    /// It decides by itself.
    Auto,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::BypassPermissions, Self::DontAsk, Self::Auto];

    /// As the CLI spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }

    /// From the environment. `manual` is an older word for `default`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = if text == "manual" { "default" } else { text };
        Self::ALL.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(text))
    }
}

/// What is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// Do not, and this is why, for the agent to read.
    Deny(String),
}

/// The rules.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How the agent was started.
    pub mode: Mode,
    /// Tools that may never be used. A bare name: rules with patterns are the CLI's own business.
    pub denied: Vec<String>,
    /// Where it works: files elsewhere are not its to change.
    pub root: PathBuf,
}

/// Fields in which tools name the file that they change.
const PATH_FIELDS: [&str; 3] = ["file_path", "notebook_path", "path"];

/// Tools that only look. They may look anywhere: headers, caches and logs lie outside of a workspace, and what must not
/// be read must not be in the sandbox.
const READERS: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];

impl Policy {
    /// Whether `tool` may be used with this input.
    pub fn decide(&self, tool: &str, input: &Value) -> Decision {
        if self.denied.iter().any(|denied| denied == tool) {
            return Decision::Deny(format!("{tool} is not allowed in this sandbox."));
        }
        match self.mode {
            Mode::Plan => return Decision::Deny("This run only plans: it may not change anything.".into()),
            Mode::DontAsk => {
                return Decision::Deny(format!("Nobody is there to allow {tool}. Do without it."));
            }
            _ => {}
        }
        if tool == "AskUserQuestion" {
            let way = "Write your question as text and end your turn; the answer will come as a message.";
            return Decision::Deny(way.into());
        }
        if READERS.contains(&tool) {
            return Decision::Allow;
        }
        let outside =
            PATH_FIELDS.iter().filter_map(|field| input.get(field)?.as_str()).find(|path| !self.holds(path));
        match outside {
            Some(path) => {
                let root = self.root.display();
                Decision::Deny(format!("{path} is outside of {root}. Work inside of it."))
            }
            None => Decision::Allow,
        }
    }

    /// Whether a path lies in the workspace, as it is written and as links lead.
    fn holds(&self, path: &str) -> bool {
        // The CLI takes this for somebody's home.
        let is_home = path.starts_with('~');
        let path = plain(&self.root.join(path));
        if is_home || !path.starts_with(&self.root) {
            return false;
        }
        let Ok(real_root) = self.root.canonicalize() else { return true };
        // The file may not be there yet: what is there of its folders tells where it will be. A link to what is not
        // there is there, and leads who knows where.
        let existing = path.ancestors().find(|place| place.symlink_metadata().is_ok());
        existing
            .and_then(|place| place.canonicalize().ok())
            .is_some_and(|place| place.starts_with(&real_root))
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_is_allowed_inside_the_workspace_and_where_nothing_forbids_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let links = [("/etc", "elsewhere"), ("/", "above"), ("/nowhere/yet", "dangling")];
        for (to, link) in links {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let policy = |mode| Policy { mode, denied: vec!["WebFetch".into()], root: root.clone() };
        let inside = root.join("new/folder/file.txt").display().to_string();
        let cases = [
            (Mode::Default, "Bash", json!({"command": "ls"}), true),
            (Mode::Default, "Write", json!({"file_path": inside}), true),
            (Mode::AcceptEdits, "Write", json!({"file_path": "relative.txt"}), true),
            (Mode::Default, "Write", json!({"file_path": "/etc/passwd"}), false),
            (Mode::Default, "Write", json!({"file_path": format!("{}/../other", root.display())}), false),
            (Mode::Default, "Edit", json!({"file_path": root.join("elsewhere/passwd")}), false),
            (Mode::Default, "Write", json!({"file_path": root.join("above/new.txt")}), false),
            (Mode::Default, "Write", json!({"file_path": root.join("dangling")}), false),
            (Mode::Default, "Write", json!({"file_path": "~/.bashrc"}), false),
            (Mode::Default, "MultiEdit", json!({"file_path": "/etc/passwd", "edits": []}), false),
            (Mode::Default, "NotebookEdit", json!({"notebook_path": "/srv/a.ipynb"}), false),
            (Mode::Default, "NotebookEdit", json!({"notebook_path": "a.ipynb"}), true),
            (Mode::Default, "Read", json!({"file_path": "/usr/include/stdio.h"}), true),
            (Mode::Default, "Grep", json!({"pattern": "x", "path": "/usr/include"}), true),
            (Mode::Plan, "Read", json!({"file_path": "/usr/include/stdio.h"}), false),
            (Mode::Default, "WebFetch", json!({}), false),
            (Mode::Default, "AskUserQuestion", json!({}), false),
            (Mode::Plan, "Bash", json!({"command": "ls"}), false),
            (Mode::DontAsk, "Bash", json!({"command": "ls"}), false),
        ];
        for (mode, tool, input, allowed) in cases {
            let decision = policy(mode).decide(tool, &input);
            assert_eq!(decision == Decision::Allow, allowed, "{mode:?} {tool} {input}: {decision:?}");
        }
    }
}
