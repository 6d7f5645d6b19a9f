//! Paths of a policy.

use super::defaults::{NEVER_READABLE, SHARED, SYSTEM};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// A file or directory: an absolute path, `~/…` in the agent's home, or a path in the workspace. It has no `..`, and no link
/// is resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyPath {
    pub root: Root,
    /// Relative to the root, without redundant separators.
    relative: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    Absolute,
    /// The agent's home directory. It is private to the sandbox, readable and writable.
    Home,
    /// The workspace. It is readable and writable.
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("must not be empty")]
    Empty,
    #[error("{0:?} contains `..`")]
    Parent(String),
    #[error("{0:?} is a pattern; name a file or a directory")]
    Pattern(String),
    #[error(
        "{0:?} names the home directory of another user; use `~/` for that of the agent, or an absolute path"
    )]
    OtherHome(String),
    #[error("{0:?} contains a character that is not allowed in a path")]
    Character(String),
}

/// Why a policy does not open a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenDirectory {
    #[error("it would open a directory of the system ({0})")]
    OfTheSystem(&'static str),
    #[error("it would open a directory with the data of other users and services ({0})")]
    Shared(&'static str),
}

impl PolicyPath {
    /// # Errors
    /// If the text is not a path.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let own = || text.to_owned();
        if text.trim().is_empty() {
            return Err(InvalidPath::Empty);
        }
        // Workers separate paths in variables by colons.
        if text.contains(|character: char| character.is_control() || character == ':') {
            return Err(InvalidPath::Character(own()));
        }
        if text.contains(['*', '?', '[']) {
            return Err(InvalidPath::Pattern(own()));
        }
        let (root, rest) = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => (Root::Home, rest),
            Some(_) => return Err(InvalidPath::OtherHome(own())),
            None if text.starts_with('/') => (Root::Absolute, text),
            None => (Root::Workspace, text),
        };
        let parts = rest.split('/').filter(|part| !part.is_empty() && *part != ".");
        let parts: Vec<&str> = parts.collect();
        if parts.contains(&"..") {
            return Err(InvalidPath::Parent(own()));
        }
        Ok(Self { root, relative: parts.join("/") })
    }

    /// The path, if it is absolute.
    pub fn absolute(&self) -> Option<PathBuf> {
        (self.root == Root::Absolute).then(|| Path::new("/").join(&self.relative))
    }

    /// Whether `other` is this path or inside of it.
    pub fn contains(&self, other: &Self) -> bool {
        self.root == other.root && Path::new(&other.relative).starts_with(&self.relative)
    }

    /// What both allow: the inner one.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        if self.contains(other) { Some(other.clone()) } else { other.contains(self).then(|| self.clone()) }
    }
}

impl ForbiddenDirectory {
    /// Why a policy must not make a path writable. Also for the real path of a link.
    pub fn for_writing(path: &Path) -> Option<Self> {
        let overlaps =
            |directory: &&&str| path.starts_with(directory) || Path::new(directory).starts_with(path);
        let system = SYSTEM.iter().find(overlaps).map(|directory| Self::OfTheSystem(directory));
        system.or_else(|| Self::shared(path))
    }

    /// Why a policy must not make a path readable. Also for the real path of a link.
    pub fn for_reading(path: &Path) -> Option<Self> {
        let overlaps =
            |directory: &&&str| path.starts_with(directory) || Path::new(directory).starts_with(path);
        let system = NEVER_READABLE.iter().find(overlaps).map(|directory| Self::OfTheSystem(directory));
        system.or_else(|| Self::shared(path))
    }

    fn shared(path: &Path) -> Option<Self> {
        SHARED.iter().find(|directory| path == Path::new(directory)).map(|directory| Self::Shared(directory))
    }
}

impl fmt::Display for PolicyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.root, self.relative.as_str()) {
            (Root::Absolute, relative) => write!(f, "/{relative}"),
            (Root::Home, "") => f.write_str("~"),
            (Root::Home, relative) => write!(f, "~/{relative}"),
            (Root::Workspace, "") => f.write_str("."),
            (Root::Workspace, relative) => f.write_str(relative),
        }
    }
}

impl Serialize for PolicyPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
