//! The user that programs run as, if it is not that of the worker.
//!
//! Without namespaces, a worker that runs as root starts its agent as a user of its own: files and processes of root and of
//! other sandboxes belong to other users, and the limit of processes applies. The number of that user is derived from the
//! agent's home directory, whose owner then records it. All these users share one group, which may pass through the
//! directories above theirs and nothing else.
//!
//! Deliberately absent: entries in `/etc/passwd`. The users have numbers only.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A user that no account has, with a group of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub id: u32,
    /// The group of all users of agents.
    pub agents: u32,
}

impl User {
    /// Whether the permissions of a file let this user read it. Without access control lists.
    pub(crate) fn may_read(self, file: &Metadata) -> bool {
        let bit = match (file.uid(), file.gid()) {
            (owner, _) if owner == self.id => 0o400,
            (_, group) if [self.id, self.agents].contains(&group) => 0o040,
            _ => 0o004,
        };
        file.mode() & bit != 0
    }
}

#[cfg(target_os = "linux")]
pub(crate) use crate::linux::user::assign;

#[cfg(not(target_os = "linux"))]
mod other {
    use super::User;
    use std::io;
    use std::path::Path;

    /// Other systems have no tier that needs it.
    pub(crate) fn assign(_home: &Path) -> Result<Option<User>, String> {
        Ok(None)
    }

    impl User {
        pub(crate) fn check_tree(self, _directory: &Path) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn change_owner_of_tree(self, _directory: &Path) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn grant_search_on_ancestors(self, _path: &Path) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use other::assign;
