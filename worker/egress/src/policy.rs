//! Which hosts an agent may connect to. Pure: names are resolved by the [proxy](crate::proxy), which then asks again with
//! the addresses.

mod address;
mod allowlist;
mod target;

pub use address::{is_private_use, is_public};
pub use allowlist::{Allowlist, InvalidEntry};
pub use target::{InvalidTarget, Target};

use std::fmt;
use std::net::IpAddr;

/// The value of the setting `NETWORK`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// Every host with a public address.
    #[default]
    Public,
    /// Only these hosts.
    Allowlist(Allowlist),
    /// No host.
    None,
}

/// Which addresses a name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Only public ones.
    Public,
    /// Public ones, and those of a private network: the operator named the host.
    Private,
    /// All, including loopback: the operator named the address.
    Any,
}

/// Why a connection is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Denial {
    #[error("the network of this sandbox is off")]
    Off,
    #[error("the host is not on the allowlist of this sandbox")]
    NotListed,
    #[error("its address is not public; the operator can allow it in `allowedPrivateHosts` or `NETWORK`")]
    NotPublic,
}

impl NetworkPolicy {
    /// Parses `public`, `none` or a list of hosts: `github.com, *.npmjs.org, localhost:4873`.
    ///
    /// # Errors
    /// When an entry is neither a host nor a pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidEntry> {
        match text.trim() {
            "" | "public" => Ok(Self::Public),
            "none" => Ok(Self::None),
            list => Allowlist::parse(list).map(Self::Allowlist),
        }
    }

    /// Whether a host may be connected to, and at which addresses. A literal address is checked completely; the
    /// addresses of a name must be checked with [`Addresses::check`] once they are known.
    ///
    /// # Errors
    /// When the connection is denied.
    pub fn check(&self, target: &Target) -> Result<Addresses, Denial> {
        let addresses = match self {
            Self::None => return Err(Denial::Off),
            Self::Public => Addresses::Public,
            Self::Allowlist(list) => list.find(target).ok_or(Denial::NotListed)?,
        };
        if let Some(address) = target.address() {
            addresses.check([address])?;
        }
        Ok(addresses)
    }
}

impl fmt::Display for NetworkPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("public"),
            Self::None => f.write_str("none"),
            Self::Allowlist(list) => write!(f, "{list}"),
        }
    }
}

impl Addresses {
    /// **Invariant:** one address that is not allowed denies the connection, so the order of a DNS response decides
    /// nothing.
    ///
    /// # Errors
    /// When an address is not allowed.
    pub fn check(self, addresses: impl IntoIterator<Item = IpAddr>) -> Result<(), Denial> {
        let is_allowed = |address: IpAddr| match self {
            Self::Public => is_public(address),
            Self::Private => is_public(address) || is_private_use(address),
            Self::Any => true,
        };
        if addresses.into_iter().all(is_allowed) { Ok(()) } else { Err(Denial::NotPublic) }
    }
}

#[cfg(test)]
mod tests;
