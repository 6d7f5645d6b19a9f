//! Which pages may talk to us: the answer to DNS rebinding, and CORS.
//!
//! A page on somebody's site can make a browser on this machine call us. Two headers tell: `Host` is the name
//! that the page's author chose (an attacker's name pointed at 127.0.0.1 is still a name that is not ours),
//! `Origin` the page's own place.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// What is allowed.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Names under which we are reached; addresses and `localhost` always are, since no DNS is asked for them.
    /// `None`: any name, because something in front of us checks.
    pub hosts: Option<Vec<String>>,
    /// Pages elsewhere that may call us, as `https://console.example`.
    pub origins: Vec<String>,
}

/// Why a request is turned away before anything is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardError {
    /// The `Host` is not one of ours.
    Host,
    /// The `Origin` is neither ours nor configured.
    Origin,
}

impl Guard {
    /// Checks both headers.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), GuardError> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        if let (Some(names), Some(host)) = (&self.hosts, host)
            && !is_own_host(host, names)
        {
            return Err(GuardError::Host);
        }
        if self.hosts.is_some() && host.is_none() {
            return Err(GuardError::Host);
        }
        match headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) {
            None => Ok(()),
            Some(origin) if self.origins.iter().any(|allowed| allowed == origin) => Ok(()),
            Some(origin) if host.is_some_and(|host| same_place(origin, host)) => Ok(()),
            Some(_) => Err(GuardError::Origin),
        }
    }

    /// The origin to name in CORS headers, if it is one of the configured ones.
    pub fn cors_origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let origin = headers.get(ORIGIN)?.to_str().ok()?;
        self.origins.iter().any(|allowed| allowed == origin).then_some(origin)
    }
}

fn is_own_host(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn same_place(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, place)| place.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), GuardError> {
        let guard = Guard {
            hosts: Some(vec!["sunaba.example".into()]),
            origins: vec!["https://console.example".into()],
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard.check(&headers)
    }

    #[test]
    fn a_rebound_name_is_turned_away_and_addresses_are_not() {
        for own in ["127.0.0.1:18000", "localhost:18000", "[::1]:18000", "192.0.2.7", "Sunaba.Example"] {
            assert_eq!(check(own, None), Ok(()), "{own}");
        }
        for strange in ["evil.example:18000", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert_eq!(check(strange, None), Err(GuardError::Host), "{strange}");
        }
    }

    #[test]
    fn pages_from_elsewhere_must_be_configured() {
        assert_eq!(check("localhost:18000", Some("http://localhost:18000")), Ok(()));
        assert_eq!(check("localhost:18000", Some("https://console.example")), Ok(()));
        for strange in ["http://evil.example", "null", "http://localhost:3000", "localhost:18000"] {
            assert_eq!(check("localhost:18000", Some(strange)), Err(GuardError::Origin), "{strange}");
        }
    }
}
