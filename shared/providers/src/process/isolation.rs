//! Isolation of the agent from its worker. The worker enforces it, and does not start if it cannot.

/// How an agent is isolated: the value of the worker's `ISOLATION` variable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The strongest that works on this machine.
    #[default]
    Auto,
    /// Its own view of files, processes, users and the network.
    Namespaces,
    /// Restricted by the kernel only.
    Landlock,
    /// Restricted by a profile of macOS.
    SandboxExec,
    /// Only by the permissions of the plane's own user.
    None,
}

impl Isolation {
    /// Value of the worker's `ISOLATION` variable.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::SandboxExec => "sandbox-exec",
            Self::None => "none",
        }
    }

    /// What an agent can access, as a clause for [`crate::SandboxProvider::isolation`].
    pub(super) fn access(self) -> &'static str {
        match self {
            Self::Auto => "its agent is isolated in the strongest way that works on this machine",
            Self::Namespaces => {
                "its agent (isolation: namespaces) sees only system directories, its own directories and its own \
                 processes; it reaches the network only through its worker's endpoints and proxy"
            }
            Self::Landlock => {
                "its agent (isolation: landlock) can read system directories and change only its own; it sees other \
                 processes, can connect to Unix sockets that its user can access, and has this machine's access to networks"
            }
            Self::SandboxExec => {
                "its agent (isolation: sandbox-exec) can read system directories, change only its own, and connect only to \
                 its worker"
            }
            Self::None => {
                "its agent is NOT ISOLATED: it has that user's access to files, and this machine's access to networks"
            }
        }
    }
}
