//! A list of hosts.

use super::{Addresses, Target};
use std::fmt;
use std::net::IpAddr;

/// Ports of an entry without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Names, patterns and addresses: `github.com`, `*.npmjs.org`, `localhost:4873`, `10.0.0.7:5000`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist {
    entries: Vec<Entry>,
    /// Besides the entries, every host with a public address, on every port.
    every_public_host: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: Pattern,
    /// 80 and 443 if `None`.
    port: Option<u16>,
    /// Whether its addresses must be public, whatever the host is.
    only_public: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// All names below this one, but not itself.
    Below(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host; use `example.com`, `*.example.com` or `host:port`, separated by commas")]
pub struct InvalidEntry(String);

impl Allowlist {
    /// Parses entries that are separated by commas or white space.
    ///
    /// # Errors
    /// With the first invalid entry.
    pub fn parse(text: &str) -> Result<Self, InvalidEntry> {
        let parts = text.split(|separator: char| separator == ',' || separator.is_whitespace());
        let entries = parts.filter(|part| !part.is_empty()).map(Entry::parse);
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Self { entries, every_public_host: false })
    }

    /// Adds the entries of another list.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self.every_public_host |= other.every_public_host;
        self
    }

    /// Allows these hosts at public addresses only.
    #[must_use]
    pub fn only_public(mut self) -> Self {
        self.entries.iter_mut().for_each(|entry| entry.only_public = true);
        self
    }

    /// Allows every other host too, at public addresses.
    #[must_use]
    pub fn with_every_public_host(mut self) -> Self {
        self.every_public_host = true;
        self
    }

    /// Ports of the worker's own loopback that are listed. Programs connect to such addresses directly and not through a
    /// proxy.
    pub fn loopback_ports(&self) -> impl Iterator<Item = u16> {
        let listed = self.entries.iter().filter(|entry| entry.host.is_loopback() && !entry.only_public);
        listed.filter_map(|entry| entry.port)
    }

    /// The addresses at which a host may be reached. `None` if it is not on the list. Of several entries, the widest
    /// counts.
    pub(super) fn find(&self, target: &Target) -> Option<Addresses> {
        let of_entries = self.entries.iter().filter_map(|entry| entry.find(target));
        let widest = of_entries.max_by_key(|addresses| match addresses {
            Addresses::Public => 0,
            Addresses::Private => 1,
            Addresses::Any => 2,
        });
        widest.or_else(|| self.every_public_host.then_some(Addresses::Public))
    }
}

impl Pattern {
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
            Self::Below(_) => false,
        }
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, InvalidEntry> {
        let invalid = || InvalidEntry(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?;
                (host, Some(port))
            }
            _ => (text, None),
        };
        let (below, host) = host.strip_prefix("*.").map_or((false, host), |rest| (true, rest));
        let target = Target::parse(host, 1).map_err(|_| invalid())?;
        let host = match (target.name(), target.address()) {
            (Some(name), _) if below => Pattern::Below(name.to_owned()),
            (Some(name), _) => Pattern::Name(name.to_owned()),
            (None, Some(address)) if !below => Pattern::Address(address),
            _ => return Err(invalid()),
        };
        Ok(Self { host, port, only_public: false })
    }

    fn find(&self, target: &Target) -> Option<Addresses> {
        let is_port = self.port.map_or(WEB_PORTS.contains(&target.port()), |port| port == target.port());
        let addresses = match &self.host {
            _ if self.only_public => Addresses::Public,
            // Its addresses are those of this host by definition (RFC 6761).
            Pattern::Name(name) if name == "localhost" => Addresses::Any,
            Pattern::Name(_) => Addresses::Private,
            Pattern::Below(_) => Addresses::Public,
            Pattern::Address(_) => Addresses::Any,
        };
        let is_host = match &self.host {
            Pattern::Name(name) => target.name() == Some(name),
            Pattern::Below(parent) => {
                let prefix = target.name().and_then(|name| name.strip_suffix(parent.as_str()));
                prefix.is_some_and(|prefix| prefix.len() > 1 && prefix.ends_with('.'))
            }
            Pattern::Address(address) => target.address() == Some(*address),
        };
        (is_port && is_host).then_some(addresses)
    }
}

impl fmt::Display for Allowlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.every_public_host.then(|| "public".to_owned());
        let all: Vec<String> = all.into_iter().chain(self.entries.iter().map(ToString::to_string)).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Pattern::Name(name) => f.write_str(name)?,
            Pattern::Below(parent) => write!(f, "*.{parent}")?,
            Pattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Pattern::Address(address) => write!(f, "{address}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
