//! Addresses of repositories at GitHub, and of its API.

use crate::{Failure, Reason};
use reqwest::Url;
use std::net::IpAddr;

/// The host of addresses without a setting.
const DEFAULT_HOST: &str = "github.com";

/// Enterprise Cloud with data residency: each customer has a subdomain, and its API one below that.
const TENANTS: &str = ".ghe.com";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub owner: String,
    pub repository: String,
    /// For git: the address as it was given.
    pub git_url: String,
    /// Without a slash at the end.
    pub api_url: String,
}

/// Whether the host is this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Address {
    /// `None` if `address` is not a repository at `host` (`GITHUB_HOST`). `api_url` is `GITHUB_API_URL`.
    pub(super) fn parse(
        address: &str,
        host: Option<&str>,
        api_url: Option<&str>,
    ) -> Result<Option<Self>, Failure> {
        let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url.filter(|url| url.username().is_empty() && url.password().is_none()) else {
            return Ok(None);
        };
        // A credential is not sent in plain text over a network.
        if url.scheme() == "http" && !is_loopback(&url) {
            return Ok(None);
        }
        let found = host_of(&url);
        if found.as_deref() != Some(&host.unwrap_or(DEFAULT_HOST).trim().to_ascii_lowercase()) {
            return Ok(None);
        }
        let Some((owner, repository)) = url.path().trim_matches('/').split_once('/') else { return Ok(None) };
        let repository = repository.strip_suffix(".git").unwrap_or(repository);
        if !is_name(owner) || !is_name(repository) {
            return Ok(None);
        }
        let host = found.unwrap_or_default();
        let api_url = api_url.map_or_else(|| Ok(default_api_url(url.scheme(), &host)), check_api_url)?;
        let (owner, repository) = (owner.to_owned(), repository.to_owned());
        Ok(Some(Self { owner, repository, git_url: address.to_owned(), api_url }))
    }

    /// The address of a host and its API, without a repository.
    pub(super) fn of_host(host: Option<&str>, api_url: Option<&str>) -> Result<Self, Failure> {
        let host = host.unwrap_or(DEFAULT_HOST).trim().to_ascii_lowercase();
        let unusable = || Failure::new(Reason::Invalid, "GITHUB_HOST must be a host, such as github.example");
        let url = Url::parse(&format!("http://{host}")).map_err(|_| unusable())?;
        // As in addresses: only this machine is reached without TLS.
        let scheme = if is_loopback(&url) { "http" } else { "https" };
        let api_url = api_url.map_or_else(|| Ok(default_api_url(scheme, &host)), check_api_url)?;
        Ok(Self { owner: String::new(), repository: String::new(), git_url: String::new(), api_url })
    }

    /// `acme/shop`.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }
}

/// Whether `owner/name` alone is the name of a repository at this host.
pub(super) fn is_default_host(host: Option<&str>) -> bool {
    host.is_none_or(|host| host.trim().eq_ignore_ascii_case(DEFAULT_HOST))
}

/// The host with its port, unless that is the default one.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?.to_ascii_lowercase();
    Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
}

fn default_api_url(scheme: &str, host: &str) -> String {
    match host {
        DEFAULT_HOST => "https://api.github.com".to_owned(),
        tenant if tenant.ends_with(TENANTS) => format!("https://api.{tenant}"),
        server => format!("{scheme}://{server}/api/v3"),
    }
}

fn check_api_url(text: &str) -> Result<String, Failure> {
    let url = Url::parse(text.trim()).ok();
    let is_plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let url = url.filter(is_plain).ok_or_else(|| {
        Failure::new(
            Reason::Invalid,
            "GITHUB_API_URL must be a URL with http or https, such as https://github.example/api/v3",
        )
    })?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether `text` can be the name of an owner or a repository, and no other path.
fn is_name(text: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str, host: Option<&str>) -> Option<Address> {
        Address::parse(address, host, None).unwrap()
    }

    #[test]
    fn each_server_has_its_own_api() {
        for (address, host, api_url) in [
            ("https://github.com/acme/shop.git", None, "https://api.github.com"),
            ("https://GitHub.com/acme/shop/", None, "https://api.github.com"),
            ("https://git.example/acme/shop", Some("Git.example"), "https://git.example/api/v3"),
            (
                "https://git.example:8443/acme/shop",
                Some("git.example:8443"),
                "https://git.example:8443/api/v3",
            ),
            ("http://127.0.0.1:4000/acme/shop.git", Some("127.0.0.1:4000"), "http://127.0.0.1:4000/api/v3"),
            ("https://acme.ghe.com/acme/shop", Some("acme.ghe.com"), "https://api.acme.ghe.com"),
        ] {
            let found = parse(address, host).unwrap();
            assert_eq!(found.api_url, api_url, "{address}");
            assert_eq!(found.full_name(), "acme/shop");
            assert_eq!(found.git_url, address);
        }
    }

    #[test]
    fn other_addresses_are_not_served() {
        for (address, host) in [
            ("https://gitlab.example/acme/shop", None),
            ("https://github.com.attacker.example/acme/shop", None),
            ("https://github.com:8443/acme/shop", None),
            ("https://github.com/acme/shop", Some("git.example")),
            ("https://github.com/acme", None),
            ("https://github.com/acme/shop/more", None),
            ("https://github.com/acme/..", None),
            ("https://github.com/acme/sh%2fop", None),
            ("https://user@github.com/acme/shop", None),
            ("ssh://git@github.com/acme/shop", None),
            ("git@github.com:acme/shop.git", None),
            ("/srv/github.com/acme/shop", None),
        ] {
            assert_eq!(parse(address, host), None, "{address}");
        }
    }

    #[test]
    fn url_of_the_api_has_no_credential_and_no_query() {
        let parse = |api_url| Address::parse("https://github.com/acme/shop", None, Some(api_url));
        assert_eq!(
            parse("http://127.0.0.1:4000/api/").unwrap().unwrap().api_url,
            "http://127.0.0.1:4000/api"
        );
        for invalid in
            ["api.github.com", "https://user:key@git.example", "https://git.example?a=b", "ftp://git.example"]
        {
            let failure = parse(invalid).unwrap_err();
            assert_eq!(failure.reason, Reason::Invalid);
            assert!(
                failure.message.contains("GITHUB_API_URL") && !failure.message.contains("key@"),
                "{failure}"
            );
        }
    }
}
