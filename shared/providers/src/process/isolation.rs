//! What a worker is kept inside of, and whether this kernel can do it. The worker itself does it, when it starts.

#[cfg(target_os = "linux")]
use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};
use std::io;

/// What a worker and its agent are kept inside of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Nothing but what the plane's own user may not.
    #[default]
    None,
    /// Its own folders to write to, the system's to read.
    Files,
    /// The same, and connections only to the ports that it needs.
    FilesAndNetwork,
}

impl Isolation {
    /// As the worker's `ISOLATION` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Files => "files",
            Self::FilesAndNetwork => "files,network",
        }
    }

    /// How far a sandbox reaches, as a part of a sentence about it.
    pub(super) fn reach(self) -> &'static str {
        match self {
            Self::None => {
                "it can read and change whatever that user can, and reach every network that this machine can"
            }
            Self::Files => {
                "the kernel (Landlock) lets it read the system's own folders and change nothing but its own, while it \
                 can reach every network that this machine can"
            }
            Self::FilesAndNetwork => {
                "the kernel (Landlock) lets it read the system's own folders and change nothing but its own, and connect \
                 over TCP only to the ports of the plane, of its model and of https, on any host; UDP is not held back"
            }
        }
    }

    /// Landlock is part of Linux. Other systems isolate nothing, and a plane that asks for it does not start.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn probe(self) -> io::Result<()> {
        if self == Self::None {
            return Ok(());
        }
        let sentence = format!(
            "isolation {:?} is enforced by Landlock, which {} does not have; use --isolation none, or Linux",
            self.as_str(),
            std::env::consts::OS
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, sentence))
    }

    /// Whether this kernel can do it: rules are made, and nobody is kept to them.
    #[cfg(target_os = "linux")]
    pub(super) fn probe(self) -> io::Result<()> {
        let ruleset = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        // The same as the worker needs.
        let files = || ruleset().handle_access(AccessFs::from_all(ABI::V3));
        let possible = match self {
            Self::None => return Ok(()),
            Self::Files => files().and_then(Ruleset::create),
            Self::FilesAndNetwork => {
                files().and_then(|files| files.handle_access(AccessNet::ConnectTcp)).and_then(Ruleset::create)
            }
        };
        possible.map(drop).map_err(|error| {
            let sentence = format!("this kernel cannot isolate {}: {error}", self.as_str());
            io::Error::new(io::ErrorKind::Unsupported, sentence)
        })
    }
}
