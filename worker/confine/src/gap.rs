//! What a tier does not cover on a machine: gaps of its isolation, as the worker reports them.

use crate::tier::Tier;
use std::fmt;

/// Something that a program can still do, or that is not enforced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// There is no isolation.
    Everything,
    /// The network is that of the machine.
    Network,
    /// Unix sockets can be connected to by their path.
    UnixSocketPaths,
    /// Unix sockets can be connected to by an abstract name.
    AbstractUnixSockets,
    /// Processes of the same user can be signalled.
    Signals,
    /// Names of processes and files can be read.
    Names,
    /// Permissions, owners and times of files of the same user can be changed:
    /// <https://docs.kernel.org/userspace-api/landlock.html#current-limitations>.
    FileAttributes,
    /// What the process table shows of processes of the same user.
    OpenFileCounts,
    /// The limit of processes includes those of other programs.
    SharedProcessLimit,
    /// Processes are not limited.
    Processes,
    /// Files are restricted by mounts only. Why Landlock does not work.
    Landlock(String),
    /// A worker of root gives its programs no user of their own. Why, as a clause.
    SharedUser(String),
    /// The tier was never run.
    Untested,
    /// Files of the system and loopback ports of the agent are visible.
    SystemFiles,
    /// The worker follows links of the agent.
    Links,
    /// Processes, memory and sizes of files are not limited.
    Limits,
}

/// What Landlock of this kernel restricts, besides files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LandlockSupport {
    /// Signals, and connections to abstract Unix sockets (Linux 6.12).
    pub scopes: bool,
    /// Connections to Unix sockets by path (Linux 7.1).
    pub unix_socket_paths: bool,
}

/// What the gaps of a tier depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions<'a> {
    /// Or why it does not work.
    pub landlock: &'a Result<LandlockSupport, String>,
    pub worker_is_root: bool,
    pub has_own_user: bool,
    /// Why a worker of root has no own user for its programs, if it should.
    pub shared_user: Option<&'a str>,
}

/// The gaps of a tier under these conditions.
pub(crate) fn gaps(tier: Tier, conditions: Conditions<'_>) -> Vec<Gap> {
    match tier {
        Tier::Namespaces => {
            let landlock = conditions.landlock.as_ref().err().map(|why| Gap::Landlock(why.clone()));
            landlock.into_iter().chain(conditions.worker_is_root.then_some(Gap::Processes)).collect()
        }
        Tier::Landlock => of_landlock(conditions),
        Tier::SandboxExec => vec![Gap::Untested, Gap::SystemFiles, Gap::Links, Gap::Limits],
        Tier::None => vec![Gap::Everything],
    }
}

fn of_landlock(conditions: Conditions<'_>) -> Vec<Gap> {
    let Conditions { landlock, worker_is_root, has_own_user, shared_user } = conditions;
    let nothing = LandlockSupport { scopes: false, unix_socket_paths: false };
    let supports = landlock.as_ref().unwrap_or(&nothing);
    let possible = [
        (true, Gap::Network),
        (!supports.unix_socket_paths, Gap::UnixSocketPaths),
        (!supports.scopes, Gap::AbstractUnixSockets),
        (!supports.scopes && !has_own_user, Gap::Signals),
        (true, Gap::Names),
        (!has_own_user, Gap::FileAttributes),
        (!has_own_user, Gap::OpenFileCounts),
        (!has_own_user && !worker_is_root, Gap::SharedProcessLimit),
        (!has_own_user && worker_is_root, Gap::Processes),
    ];
    let possible = possible.into_iter().filter(|(applies, _)| *applies).map(|(_, gap)| gap);
    possible.chain(shared_user.map(|why| Gap::SharedUser(why.to_owned()))).collect()
}

impl fmt::Display for Gap {
    /// A short sentence for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "Everything that the user of the worker can access.",
            Self::Network => "The network is that of the machine, with its loopback interface and the local network.",
            Self::UnixSocketPaths => {
                "Unix sockets of other programs can be connected to by their path if their permissions allow it, before Linux 7.1."
            }
            Self::AbstractUnixSockets => {
                "Abstract Unix sockets of other programs can be connected to, before Linux 6.12."
            }
            Self::Signals => "Other processes of the user can be ended by signals, before Linux 6.12.",
            Self::Names => "Names and arguments of other processes, and names of files, are visible.",
            Self::FileAttributes => {
                "Permissions and times of the user's files can be changed, but not what the files contain."
            }
            Self::OpenFileCounts => "How many files other processes of the user have open is visible.",
            Self::SharedProcessLimit => {
                "The number of processes counts together with the other processes of the user."
            }
            Self::Processes => "The number of processes is not limited, because the worker runs as root.",
            Self::Landlock(why) => {
                return write!(f, "Files are restricted by mounts only, because Landlock does not work: {why}.");
            }
            Self::SharedUser(why) => {
                return write!(
                    f,
                    "The agent runs as root, without capabilities, because the worker cannot give it a user of its own: {why}."
                );
            }
            Self::Untested => "This tier is untested: only its generated profile is checked.",
            Self::SystemFiles => {
                "Files of the system are visible, and the loopback ports on which other programs of the agent listen."
            }
            Self::Links => "The worker follows symbolic links that the agent puts into its directories.",
            Self::Limits => "Processes, memory and the sizes of files are not limited.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: LandlockSupport = LandlockSupport { scopes: true, unix_socket_paths: true };

    fn of(tier: Tier, landlock: Result<LandlockSupport, String>, worker_is_root: bool) -> Vec<Gap> {
        let has_own_user = worker_is_root && tier == Tier::Landlock;
        gaps(tier, Conditions { landlock: &landlock, worker_is_root, has_own_user, shared_user: None })
    }

    #[test]
    fn gaps_of_landlock_are_those_of_the_kernel() {
        let since_6_12 = LandlockSupport { unix_socket_paths: false, ..ALL };
        let before_6_12 = LandlockSupport { scopes: false, ..since_6_12 };
        let always =
            [Gap::Network, Gap::Names, Gap::FileAttributes, Gap::OpenFileCounts, Gap::SharedProcessLimit];
        let further = |landlock| {
            let found = of(Tier::Landlock, Ok(landlock), false);
            assert!(always.iter().all(|gap| found.contains(gap)), "{found:?}");
            found.into_iter().filter(|gap| !always.contains(gap)).collect::<Vec<_>>()
        };
        assert_eq!(further(ALL), []);
        assert_eq!(further(since_6_12), [Gap::UnixSocketPaths]);
        let open = [Gap::UnixSocketPaths, Gap::AbstractUnixSockets, Gap::Signals];
        assert_eq!(further(before_6_12), open);
    }

    #[test]
    fn user_of_its_own_closes_gaps_of_landlock() {
        let none = LandlockSupport { scopes: false, unix_socket_paths: false };
        let open = [Gap::Network, Gap::UnixSocketPaths, Gap::AbstractUnixSockets, Gap::Names];
        assert_eq!(of(Tier::Landlock, Ok(none), true), open);
    }

    #[test]
    fn worker_of_root_without_another_user_reports_why() {
        let conditions = Conditions {
            landlock: &Ok(ALL),
            worker_is_root: true,
            has_own_user: false,
            shared_user: Some("it lacks a capability"),
        };
        let found = gaps(Tier::Landlock, conditions);
        assert!(found.contains(&Gap::Processes) && !found.contains(&Gap::SharedProcessLimit), "{found:?}");
        let text = found.last().unwrap().to_string();
        assert!(text.ends_with("a user of its own: it lacks a capability."), "{text}");
    }

    #[test]
    fn namespaces_without_landlock_are_a_gap() {
        assert_eq!(of(Tier::Namespaces, Ok(ALL), false), []);
        assert_eq!(of(Tier::Namespaces, Ok(ALL), true), [Gap::Processes]);
        let found = of(Tier::Namespaces, Err("it is disabled".to_owned()), false);
        assert_eq!(found, [Gap::Landlock("it is disabled".to_owned())]);
        assert!(found[0].to_string().contains("mounts only"), "{}", found[0]);
    }
}
