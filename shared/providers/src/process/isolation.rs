//! Isolation levels of a worker, and whether this kernel supports them. The worker applies its own isolation at start.

#[cfg(target_os = "linux")]
use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};
use std::io;

/// Isolation of a worker and its agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Only the permissions of the plane's own user.
    #[default]
    None,
    /// Writes only to its own directories, reads only those and the system's.
    Files,
    /// Additionally, TCP connections only to the ports that it needs.
    FilesAndNetwork,
}

impl Isolation {
    /// Value of the worker's `ISOLATION` variable.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Files => "files",
            Self::FilesAndNetwork => "files,network",
        }
    }

    /// What a sandbox can access, as a clause for [`crate::SandboxProvider::isolation`].
    pub(super) fn access(self) -> &'static str {
        match self {
            Self::None => "it has that user's access to files, and this machine's access to networks",
            Self::Files => {
                "the kernel (Landlock) limits it to reading system directories and changing its own; it has this machine's \
                 access to networks"
            }
            Self::FilesAndNetwork => {
                "the kernel (Landlock) limits it to reading system directories and changing its own, and to TCP connections \
                 to the ports of the plane, of its model API and of HTTPS, on any host; UDP is not limited"
            }
        }
    }

    /// Landlock is part of Linux. On other systems a plane that is configured for isolation does not start.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn probe(self) -> io::Result<()> {
        if self == Self::None {
            return Ok(());
        }
        let message = format!(
            "isolation {:?} needs Landlock, which {} does not have; use --isolation none, or Linux",
            self.as_str(),
            std::env::consts::OS
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Checks that this kernel supports it, by creating a ruleset without enforcing it.
    #[cfg(target_os = "linux")]
    pub(super) fn probe(self) -> io::Result<()> {
        let ruleset = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        // The same access rights as the worker restricts.
        let files = || ruleset().handle_access(AccessFs::from_all(ABI::V3));
        let possible = match self {
            Self::None => return Ok(()),
            Self::Files => files().and_then(Ruleset::create),
            Self::FilesAndNetwork => {
                files().and_then(|files| files.handle_access(AccessNet::ConnectTcp)).and_then(Ruleset::create)
            }
        };
        possible.map(drop).map_err(|error| {
            let message = format!("this kernel does not support isolation {}: {error}", self.as_str());
            io::Error::new(io::ErrorKind::Unsupported, message)
        })
    }
}
