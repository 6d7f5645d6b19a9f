//! Hosts of a policy: names, patterns and addresses. The worker's proxy enforces them, with the same syntax.

use super::address::is_public;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;

pub use super::defaults::SETS;

/// Ports of a host without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// `github.com`, `*.npmjs.org`, `registry.example:5000`, `10.0.0.7`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    pattern: Pattern,
    /// 80 and 443 if `None`.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    Name(String),
    /// All names below this one, but not itself.
    Below(String),
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    #[error("{0:?} is a URL; name only its host")]
    Url(String),
    #[error("{0:?} is not a host; use `example.com`, `*.example.com` or `host:port`")]
    Form(String),
    #[error("{0:?} matches every host; set access to `public` instead")]
    Everything(String),
}

impl Host {
    /// # Errors
    /// If the text is not a host.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        let invalid = || InvalidHost::Form(text.to_owned());
        if text.contains('/') {
            return Err(InvalidHost::Url(text.to_owned()));
        }
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?;
                (host, Some(port))
            }
            _ => (text, None),
        };
        if matches!(host, "*" | "*.") {
            return Err(InvalidHost::Everything(text.to_owned()));
        }
        let (below, host) = host.strip_prefix("*.").map_or((false, host), |rest| (true, rest));
        let host = host.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(host);
        let pattern = match url::Host::parse(host).map_err(|_| invalid())? {
            url::Host::Domain(name) if !is_name(&name) => return Err(invalid()),
            url::Host::Domain(name) if below => Pattern::Below(name),
            url::Host::Domain(name) => Pattern::Name(name),
            _ if below => return Err(invalid()),
            url::Host::Ipv4(address) => Pattern::Address(IpAddr::V4(address)),
            url::Host::Ipv6(address) => Pattern::Address(IpAddr::V6(address).to_canonical()),
        };
        Ok(Self { pattern, port })
    }

    /// The hosts of a set: `registries`.
    pub fn set(name: &str) -> Option<Vec<Self>> {
        let (_, _, hosts) = SETS.iter().find(|(known, ..)| *known == name)?;
        Some(hosts.iter().filter_map(|host| Self::parse(host).ok()).collect())
    }

    /// Whether it stands for several names.
    pub fn is_pattern(&self) -> bool {
        matches!(self.pattern, Pattern::Below(_))
    }

    /// Whether it can never have a public address.
    pub fn is_private(&self) -> bool {
        match &self.pattern {
            Pattern::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Pattern::Below(name) => name == "localhost",
            Pattern::Address(address) => !is_public(*address),
        }
    }

    /// What both allow.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (None, None) => None,
            (Some(one), Some(another)) => Some((one == another).then_some(one)?),
            (Some(port), None) | (None, Some(port)) => Some(WEB_PORTS.contains(&port).then_some(port)?),
        };
        let pattern = if self.pattern.covers(&other.pattern) {
            &other.pattern
        } else if other.pattern.covers(&self.pattern) {
            &self.pattern
        } else {
            return None;
        };
        Some(Self { pattern: pattern.clone(), port })
    }
}

impl Pattern {
    fn covers(&self, other: &Self) -> bool {
        let is_below = |name: &str, parent: &str| {
            name.strip_suffix(parent).is_some_and(|prefix| prefix.len() > 1 && prefix.ends_with('.'))
        };
        match (self, other) {
            (Self::Below(parent), Self::Name(name)) => is_below(name, parent),
            (Self::Below(parent), Self::Below(name)) => name == parent || is_below(name, parent),
            (one, another) => one == another,
        }
    }
}

/// Whether a resolver sees the same labels as the policy.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Name(name) => f.write_str(name)?,
            Pattern::Below(parent) => write!(f, "*.{parent}")?,
            Pattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Pattern::Address(address) => write!(f, "{address}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
