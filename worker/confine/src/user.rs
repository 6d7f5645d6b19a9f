//! The user that programs run as, if it is not that of the worker.
//!
//! Without namespaces, a worker that runs as root starts its agent as a user of its own: files and processes of root and of
//! other sandboxes belong to other users, and the limit of processes applies. The number of that user is derived from the
//! agent's home directory, whose owner then records it. All these users share one group, which may pass through the
//! directories above theirs and nothing else.
//!
//! Deliberately absent: entries in `/etc/passwd`. The users have numbers only.

use serde::{Deserialize, Serialize};

/// A user that no account has, with a group of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub id: u32,
    /// The group of all users of agents.
    pub agents: u32,
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
