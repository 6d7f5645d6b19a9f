//! How strongly programs are confined, and what this machine can enforce.

use crate::gap::LandlockSupport;
use crate::{bubblewrap, seatbelt};
use anyhow::{anyhow, bail};
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// How strongly a program is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    None,
    /// On macOS: the kernel restricts the program by a profile.
    SandboxExec,
    /// The kernel restricts the program, but it sees the processes and the network of the machine.
    Landlock,
    /// The program has its own view of files, processes, users and the network, and is restricted in addition.
    Namespaces,
}

/// The tier that the operator asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Setting {
    /// The strongest tier that works; never `none`.
    #[default]
    Auto,
    Exactly(Tier),
}

/// What works on this machine.
#[derive(Debug, Clone)]
pub struct Available {
    /// Path of bubblewrap, or why it cannot be used.
    pub bubblewrap: Result<PathBuf, String>,
    /// What Landlock restricts, or why it cannot be used.
    pub landlock: Result<LandlockSupport, String>,
    /// Why the sandbox of macOS cannot be used, if so.
    pub sandbox_exec: Result<(), String>,
}

/// Probes this machine once per process.
pub fn available() -> &'static Available {
    static AVAILABLE: OnceLock<Available> = OnceLock::new();
    AVAILABLE.get_or_init(|| Available {
        bubblewrap: bubblewrap::probe(),
        landlock: probe_landlock(),
        sandbox_exec: seatbelt::probe(),
    })
}

#[cfg(target_os = "linux")]
fn probe_landlock() -> Result<LandlockSupport, String> {
    crate::linux::landlock::probe().map_err(|error| format!("{error:#}"))
}

#[cfg(not(target_os = "linux"))]
fn probe_landlock() -> Result<LandlockSupport, String> {
    Err(format!("Landlock is part of Linux; this is {}", std::env::consts::OS))
}

impl Available {
    fn is_macos(&self) -> bool {
        self.sandbox_exec.is_ok() || cfg!(target_os = "macos")
    }
}

impl Tier {
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Landlock, Self::SandboxExec, Self::None];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::SandboxExec => "sandbox-exec",
            Self::None => "none",
        }
    }
}

impl Setting {
    /// For errors and help texts.
    pub const VALUES: &str = "auto, namespaces, landlock, sandbox-exec (macOS) or none";

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exactly(tier) => tier.as_str(),
        }
    }

    /// # Errors
    /// A clause about the value: "must be …".
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.replace(' ', "");
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.as_str() == text) {
            return Ok(Self::Exactly(tier));
        }
        let values = Self::VALUES;
        Err(match text.as_str() {
            "files" | "files,network" => {
                format!("must be {values}; {text:?} was replaced by auto, which isolates more")
            }
            _ => format!("must be {values}, not {text:?}"),
        })
    }

    /// The tier to use on this machine. `name` is the setting, for the error.
    ///
    /// # Errors
    /// One line that says what to install or set, if the tier does not work here.
    pub fn resolve(self, name: &str) -> anyhow::Result<Tier> {
        self.choose(available()).map_err(|reasons| {
            let set = format!("set {name}=none to run agents without isolation");
            match self {
                Self::Auto if cfg!(target_os = "linux") => {
                    anyhow!("Agents cannot be isolated here ({reasons}). Install bubblewrap (apt-get install bubblewrap), or {set}.")
                }
                Self::Exactly(Tier::Namespaces) => {
                    anyhow!("{name}=namespaces does not work here ({reasons}). Install bubblewrap (apt-get install bubblewrap), or set {name}=auto.")
                }
                Self::Exactly(Tier::SandboxExec) => {
                    anyhow!("{name}=sandbox-exec does not work here ({reasons}). Set {name}=auto.")
                }
                _ => anyhow!("{name}={self} does not work here ({reasons}). Use Linux 6.2 or later, or {set}."),
            }
        })
    }

    fn choose(self, available: &Available) -> anyhow::Result<Tier> {
        let works = |tier: Tier| match tier {
            Tier::None => Ok(()),
            Tier::SandboxExec => available.sandbox_exec.clone(),
            Tier::Landlock => available.landlock.clone().map(drop),
            Tier::Namespaces => available.bubblewrap.clone().map(drop),
        };
        let candidates = match self {
            Self::Exactly(tier) => vec![tier],
            Self::Auto if available.is_macos() => vec![Tier::SandboxExec],
            Self::Auto => vec![Tier::Namespaces, Tier::Landlock],
        };
        let mut reasons = Vec::new();
        for tier in candidates {
            match works(tier) {
                Ok(()) => return Ok(tier),
                Err(why) => reasons.push(why),
            }
        }
        bail!("{}", reasons.join("; "))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANDLOCK: LandlockSupport = LandlockSupport { scopes: true, unix_socket_paths: true };

    #[test]
    fn auto_is_the_strongest_tier_that_works_and_never_none() {
        let machine = |bubblewrap: bool, landlock: bool| Available {
            bubblewrap: if bubblewrap { Ok("/usr/bin/bwrap".into()) } else { Err("no bubblewrap".into()) },
            landlock: if landlock { Ok(LANDLOCK) } else { Err("no Landlock".into()) },
            sandbox_exec: Err("not macOS".into()),
        };
        let choose = |setting: &str, bubblewrap, landlock| {
            let tier = Setting::parse(setting).unwrap().choose(&machine(bubblewrap, landlock));
            tier.map_err(|error| error.to_string())
        };
        assert_eq!(choose("auto", true, true), Ok(Tier::Namespaces));
        assert_eq!(choose("auto", false, true), Ok(Tier::Landlock));
        assert_eq!(choose("auto", false, false), Err("no bubblewrap; no Landlock".to_owned()));
        assert_eq!(choose("landlock", true, true), Ok(Tier::Landlock));
        assert_eq!(choose("landlock", true, false), Err("no Landlock".to_owned()));
        assert_eq!(choose("namespaces", false, true), Err("no bubblewrap".to_owned()));
        assert_eq!(choose("none", true, true), Ok(Tier::None));
        assert_eq!(choose("sandbox-exec", true, true), Err("not macOS".to_owned()));
        let macos = Available { sandbox_exec: Ok(()), ..machine(false, false) };
        assert_eq!(Setting::Auto.choose(&macos).unwrap(), Tier::SandboxExec);
    }

    #[test]
    fn replaced_values_are_rejected_with_the_new_names() {
        for old in ["files", "files,network", "files, network"] {
            let error = Setting::parse(old).unwrap_err();
            assert!(error.starts_with(&format!("must be {}", Setting::VALUES)), "{error}");
        }
        assert!(Setting::parse("strict").is_err());
    }
}
