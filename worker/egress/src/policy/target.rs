//! The host and port of a requested connection.

use std::fmt;
use std::net::IpAddr;
use url::Host;

/// A normalized destination: names are lower case, in ASCII and without a final dot, and every spelling of an address
/// (`0x7f.1`, `2130706433`) is an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    host: Host<String>,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host or port is not valid")]
pub struct InvalidTarget;

impl Target {
    /// `host` is a name, an IPv4 address, or an IPv6 address in brackets.
    ///
    /// # Errors
    /// When it is none of them, or the port is 0.
    pub fn parse(host: &str, port: u16) -> Result<Self, InvalidTarget> {
        let host = host.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(host);
        match Host::parse(host).map_err(|_| InvalidTarget)? {
            Host::Domain(name) if !is_name(&name) => Err(InvalidTarget),
            _ if port == 0 => Err(InvalidTarget),
            host => Ok(Self { host, port }),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `None` if it is a name.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(*address)),
            Host::Ipv6(address) => Some(IpAddr::V6(*address).to_canonical()),
        }
    }

    /// `None` if it is an address.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Domain(name) => Some(name),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// The host as in a URL.
    pub fn host(&self) -> String {
        self.host.to_string()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
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
