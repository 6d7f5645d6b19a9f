//! Permission policy for tools. A sandbox has no interactive user, so rules answer permission requests immediately.

use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Permission modes of the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Asks before every change.
    Default,
    /// Edits files without asking.
    AcceptEdits,
    /// Read-only: the agent writes a plan.
    Plan,
    /// Never asks. As root, the CLI refuses this mode unless `IS_SANDBOX` is set.
    BypassPermissions,
    /// Denies everything that would need a permission.
    DontAsk,
    /// The CLI decides.
    Auto,
}

impl Mode {
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::BypassPermissions, Self::DontAsk, Self::Auto];

    /// The CLI's spelling.
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

    /// `manual` is an older name for `default`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = if text == "manual" { "default" } else { text };
        Self::ALL.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(text))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// With the reason, which the agent reads.
    Deny(String),
}

#[derive(Debug, Clone)]
pub struct Policy {
    pub mode: Mode,
    /// Names of forbidden tools. Rules with patterns are left to the CLI.
    pub denied: Vec<String>,
    /// The workspace. Files outside of it must not be changed.
    pub root: PathBuf,
}

/// Input fields that hold the path of the file to change.
const PATH_FIELDS: [&str; 3] = ["file_path", "notebook_path", "path"];

/// Read-only tools. They may read any path: headers, caches and logs are outside of the workspace, and secrets must not
/// be in the sandbox at all.
const READERS: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];

impl Policy {
    pub fn decide(&self, tool: &str, input: &Value) -> Decision {
        if self.denied.iter().any(|denied| denied == tool) {
            return Decision::Deny(format!("{tool} is not allowed in this sandbox."));
        }
        match self.mode {
            Mode::Plan => {
                return Decision::Deny("This run is in plan mode and must not make changes.".into());
            }
            Mode::DontAsk => {
                return Decision::Deny(format!(
                    "{tool} needs a permission that this run cannot ask for. Continue without it."
                ));
            }
            _ => {}
        }
        if tool == "AskUserQuestion" {
            let reason = "Write your question as text and end your turn; the answer will come as a message.";
            return Decision::Deny(reason.into());
        }
        if READERS.contains(&tool) {
            return Decision::Allow;
        }
        let outside = PATH_FIELDS
            .iter()
            .filter_map(|field| input.get(field)?.as_str())
            .find(|path| !self.contains(path));
        match outside {
            Some(path) => {
                let root = self.root.display();
                Decision::Deny(format!("{path} is outside of the workspace {root}."))
            }
            None => Decision::Allow,
        }
    }

    /// Whether a path is in the workspace, both lexically and after resolving symbolic links.
    fn contains(&self, path: &str) -> bool {
        // The CLI expands `~` to the home directory.
        let is_home = path.starts_with('~');
        let path = normalized(&self.root.join(path));
        if is_home || !path.starts_with(&self.root) {
            return false;
        }
        let Ok(real_root) = self.root.canonicalize() else { return true };
        // The file may not exist yet, so resolve its deepest existing ancestor. A dangling symbolic link counts as
        // existing, fails to resolve, and is rejected.
        let existing = path.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok());
        existing
            .and_then(|ancestor| ancestor.canonicalize().ok())
            .is_some_and(|ancestor| ancestor.starts_with(&real_root))
    }
}

/// Resolves `.` and `..` lexically.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_allowed_only_inside_the_workspace() {
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
