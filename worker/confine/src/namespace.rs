//! The network namespace that all programs of a sandbox share.
//!
//! One process, started with [`Launcher::namespace_command`](crate::Launcher::namespace_command), keeps it open. Every
//! program enters it before bubblewrap makes the other namespaces, because bubblewrap can create a network namespace, but
//! not enter one.

use std::ffi::OsString;
use std::io;

/// The hidden subcommand of the worker. Its arguments: those of the namespace, a program, and the
/// arguments of the program.
pub const ENTER_COMMAND: &str = "enter";

/// The network namespace of a running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkNamespace {
    process: u32,
    /// Identify its user and its network namespace. The number of a process that has exited may be that of another one later.
    inodes: [u64; 2],
}

impl NetworkNamespace {
    /// # Errors
    /// If the process does not exist, or shares the network of this process.
    #[cfg(target_os = "linux")]
    pub fn of(process: u32) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let inode = |process: &str, kind: &str| {
            Ok::<_, io::Error>(std::fs::metadata(format!("/proc/{process}/ns/{kind}"))?.ino())
        };
        let inodes = |process: &str| Ok::<_, io::Error>([inode(process, "user")?, inode(process, "net")?]);
        let found = Self { process, inodes: inodes(&process.to_string())? };
        if found.inodes[1] == inode("self", "net")? {
            return Err(io::Error::other("the process has no network namespace of its own"));
        }
        Ok(found)
    }

    /// Other systems have no network namespaces.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_process: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The process that keeps the namespace open.
    pub fn process(&self) -> u32 {
        self.process
    }

    pub(crate) fn arguments(&self) -> [OsString; 3] {
        let [user, network] = self.inodes;
        [u64::from(self.process), user, network].map(|number| number.to_string().into())
    }
}

/// Enters the namespace and executes the program. Returns only on failure.
#[cfg(target_os = "linux")]
pub fn enter_namespace(arguments: &[OsString]) -> anyhow::Error {
    use anyhow::{Context, anyhow};
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    let enter = || -> anyhow::Result<std::convert::Infallible> {
        let [process, user, network, program, arguments @ ..] = arguments else {
            return Err(anyhow!("arguments are missing"));
        };
        let number = |text: &OsString| text.to_str()?.parse::<u64>().ok();
        let process = number(process).context("not a process")?;
        let open = |kind: &str, inode: &OsString| {
            let missing = "the network of this sandbox does not exist any more";
            let file = File::open(format!("/proc/{process}/ns/{kind}")).context(missing)?;
            anyhow::ensure!(Some(file.metadata()?.ino()) == number(inode), missing);
            Ok(file)
        };
        let (users, network) = (open("user", user)?, open("net", network)?);
        // The user namespace first: its capabilities are needed for the other.
        for (namespace, kind) in [(users, LinkNameSpaceType::User), (network, LinkNameSpaceType::Network)] {
            move_into_link_name_space(namespace.as_fd(), Some(kind))
                .context("cannot enter the network of this sandbox")?;
        }
        Err(std::process::Command::new(program).args(arguments).exec().into())
    };
    match enter() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

#[cfg(not(target_os = "linux"))]
pub fn enter_namespace(_arguments: &[OsString]) -> anyhow::Error {
    anyhow::anyhow!("only Linux has network namespaces")
}
