//! Protection against DNS rebinding and cross-origin requests.
//!
//! Any web page can make the browser of its visitor send requests to this server. Three headers reveal it: `Host` is the
//! name that the page used (a name that an attacker points at 127.0.0.1 is not one of ours), `Origin` is the page's origin,
//! and `Sec-Fetch-Site` says whether that is another one, also in requests without an `Origin`, such as those for images
//! (<https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>).

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Allowed hosts and origins.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Allowed host names. IP addresses and `localhost` are always allowed, because DNS cannot rebind them. `None` allows any
    /// name, for a host behind a gateway that checks it.
    pub hosts: Option<Vec<String>>,
    /// Allowed cross origins, such as `https://console.example`.
    pub origins: Vec<String>,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardError {
    /// The `Host` is not allowed.
    Host,
    /// The `Origin` is neither the server itself nor allowed.
    Origin,
}

impl Guard {
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
            Some(origin) if host.is_some_and(|host| is_same_origin(origin, host)) => Ok(()),
            Some(_) => Err(GuardError::Origin),
        }
    }

    /// Rejects requests of pages of other origins, unless their origin is allowed. Pages of the same site are other origins
    /// too: on localhost, the servers that agents start are of the same site. Programs do not send the header.
    pub fn check_site(&self, headers: &HeaderMap) -> Result<(), GuardError> {
        let Some(site) = headers.get(SEC_FETCH_SITE) else { return Ok(()) };
        match site.as_bytes() {
            // `none`: the user typed the address.
            b"same-origin" | b"none" => Ok(()),
            _ if self.cors_origin(headers).is_some() => Ok(()),
            _ => Err(GuardError::Origin),
        }
    }

    /// The origin for the CORS headers, if it is allowed.
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

fn is_same_origin(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
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
    fn unknown_host_is_rejected_and_addresses_are_allowed() {
        for own in ["127.0.0.1:18000", "localhost:18000", "[::1]:18000", "192.0.2.7", "Sunaba.Example"] {
            assert_eq!(check(own, None), Ok(()), "{own}");
        }
        for host in ["evil.example:18000", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert_eq!(check(host, None), Err(GuardError::Host), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_must_be_allowed() {
        let guard = Guard { hosts: None, origins: vec!["https://console.example".into()] };
        let check = |site: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_FETCH_SITE, site.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            guard.check_site(&headers)
        };
        assert_eq!(guard.check_site(&HeaderMap::new()), Ok(()), "programs do not send it");
        for site in ["same-origin", "none"] {
            assert_eq!(check(site, None), Ok(()), "{site}");
        }
        for site in ["cross-site", "same-site", "", "other"] {
            assert_eq!(check(site, None), Err(GuardError::Origin), "{site}");
            assert_eq!(check(site, Some("https://evil.example")), Err(GuardError::Origin), "{site}");
            assert_eq!(check(site, Some("https://console.example")), Ok(()), "{site}");
        }
    }

    #[test]
    fn cross_origin_must_be_allowed() {
        assert_eq!(check("localhost:18000", Some("http://localhost:18000")), Ok(()));
        assert_eq!(check("localhost:18000", Some("https://console.example")), Ok(()));
        for origin in ["http://evil.example", "null", "http://localhost:3000", "localhost:18000"] {
            assert_eq!(check("localhost:18000", Some(origin)), Err(GuardError::Origin), "{origin}");
        }
    }
}
