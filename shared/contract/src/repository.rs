//! Parses the address of a repository. The plane and the worker use this parser, so the plane accepts only what
//! workers support.

use std::collections::BTreeMap;
use url::Url;

/// Parses `owner/name` (on github.com), a URL, a directory, or `git@host:path`, and returns the address for git. HTTP
/// URLs are normalized, so that git requests a credential for the host that [`Url`] finds in them.
///
/// **Invariant:** an HTTP URL has no `@`, so it contains no credential.
pub fn parse(address: &str) -> Result<String, InvalidAddress> {
    if address.contains("://") {
        return parse_url(address);
    }
    if let Some((owner, name)) = address.split_once('/')
        && is_name(owner)
        && is_name(name)
    {
        let name = name.strip_suffix(".git").unwrap_or(name);
        return Ok(format!("https://github.com/{owner}/{name}.git"));
    }
    let is_remote = address.split_once('@').is_some_and(|(user, path)| is_name(user) && path.contains(':'));
    if is_remote || address.starts_with('/') { Ok(address.to_owned()) } else { Err(InvalidAddress::Form) }
}

/// The same text for all addresses of a repository at a host: `github.com/acme/shop`. `None` for other addresses than
/// URLs with http or https.
pub fn key(address: &str) -> Option<String> {
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let path = url.path().trim_matches('/').to_ascii_lowercase();
    let path = path.strip_suffix(".git").unwrap_or(&path);
    Some(format!("{}/{path}", host_of(&url)?))
}

/// The directory of the machine that an address names, if it names one.
pub fn directory(address: &str) -> Option<&str> {
    let address = address.trim();
    let path = address.strip_prefix("file://").unwrap_or(address);
    (path.len() < address.len() || path.starts_with('/')).then_some(path)
}

/// Why an address is invalid. It omits the address, which may contain a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    #[error("must be owner/name or the URL of a repository")]
    Form,
    #[error("must be a URL with http, https, ssh, git or file")]
    Protocol,
    /// Every user who can read a ticket could read the secret in it.
    #[error("must not contain a user name, password or token, or any other '@'")]
    Credentials,
}

/// The repositories for which a token of a code host is.
///
/// **Invariant:** a token is sent to no other host, and to no other repository if some are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScope {
    /// With the port, unless it is the default one. Lower case.
    host: String,
    /// `owner/name` or `owner/*`, in lower case. Empty for all repositories of the host.
    repositories: Vec<String>,
}

/// The host of tokens without a setting.
pub const DEFAULT_TOKEN_HOST: &str = "github.com";

/// Why the scope of a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    #[error("must be a host, such as `github.example` or `github.example:8443`")]
    Host,
    #[error("must list repositories as `owner/name` or `owner/*`, separated by commas")]
    Repositories,
}

impl TokenScope {
    /// The scope in these variables. Empty ones count as not set.
    pub fn of(variables: &BTreeMap<String, String>) -> Result<Self, InvalidScope> {
        let variable =
            |name: &str| variables.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        Self::parse(variable("GITHUB_HOST"), variable("GITHUB_REPOSITORIES"))
    }

    /// The values of `GITHUB_HOST` and `GITHUB_REPOSITORIES`.
    pub fn parse(host: Option<&str>, repositories: Option<&str>) -> Result<Self, InvalidScope> {
        let host = host.unwrap_or(DEFAULT_TOKEN_HOST).trim().to_ascii_lowercase();
        let url = Url::parse(&format!("https://{host}")).map_err(|_| InvalidScope::Host)?;
        if url.path() != "/" || host.contains(['/', '@', '?', '#']) {
            return Err(InvalidScope::Host);
        }
        let listed =
            repositories.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        let repositories: Vec<String> = listed.map(str::to_ascii_lowercase).collect();
        let is_pattern = |pattern: &String| {
            pattern
                .split_once('/')
                .is_some_and(|(owner, name)| is_name(owner) && (name == "*" || is_name(name)))
        };
        if !repositories.iter().all(is_pattern) {
            return Err(InvalidScope::Repositories);
        }
        Ok(Self { host: host_of(&url).ok_or(InvalidScope::Host)?, repositories })
    }

    /// Whether the token is for a repository, as [`parse`] returns it.
    pub fn covers(&self, repository: &str) -> bool {
        let Some(url) = Url::parse(repository).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
        else {
            return false;
        };
        let path = url.path().trim_matches('/').to_ascii_lowercase();
        let path = path.strip_suffix(".git").unwrap_or(&path);
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(owner) => path.strip_prefix(owner).is_some_and(is_name),
            None => path == pattern,
        };
        host_of(&url).is_some_and(|host| host == self.host)
            && (self.repositories.is_empty() || self.repositories.iter().any(matches))
    }
}

/// The host with its port, unless that is the default one.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?.to_ascii_lowercase();
    Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
}

/// Whether `text` may be the owner or the name of a repository on github.com.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    !text.is_empty() && !text.starts_with(['.', '-']) && text.chars().all(plain)
}

fn parse_url(address: &str) -> Result<String, InvalidAddress> {
    // `Url` also accepts `https:/host`, so the slashes are not compared.
    let is_http = address.starts_with("http");
    // Not only in the user of the URL: with `#`, `?` or `/` in a secret, `Url` finds no user.
    if is_http && address.contains('@') {
        return Err(InvalidAddress::Credentials);
    }
    // git accepts the names of protocols in lower case only.
    let is_known = |scheme: &str| {
        ["http", "https", "ssh", "git", "file"].contains(&scheme) && address.starts_with(scheme)
    };
    let url = Url::parse(address).ok().filter(|url| is_known(url.scheme()));
    let url = url.ok_or(InvalidAddress::Protocol)?;
    Ok(if is_http { url.into() } else { address.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (address, url) in [
            ("acme/shop", "https://github.com/acme/shop.git"),
            ("acme/shop.git", "https://github.com/acme/shop.git"),
            ("https://github.com/acme/shop", "https://github.com/acme/shop"),
            ("https://Git.example:443/a/b.git", "https://git.example/a/b.git"),
            ("git@github.com:acme/shop.git", "git@github.com:acme/shop.git"),
            ("ssh://git@host/a", "ssh://git@host/a"),
            ("git://host/a", "git://host/a"),
            ("file:///srv/a", "file:///srv/a"),
            ("/srv/shop.git", "/srv/shop.git"),
        ] {
            assert_eq!(parse(address).as_deref(), Ok(url), "{address}");
        }
    }

    #[test]
    fn token_is_for_its_host_only() {
        let scope = |host| TokenScope::parse(host, None).unwrap();
        for (host, repository, covered) in [
            (None, "https://github.com/acme/shop.git", true),
            (None, "https://GitHub.com/acme/shop", true),
            (None, "https://github.com:8443/acme/shop", false),
            (None, "https://attacker.example/acme/shop.git", false),
            (None, "https://github.com.attacker.example/acme/shop.git", false),
            (None, "https://attacker.example/github.com/acme/shop.git", false),
            (None, "ssh://git@github.com/acme/shop", false),
            (None, "git@github.com:acme/shop.git", false),
            (None, "/srv/shop.git", false),
            (Some("Git.example:8443"), "https://git.example:8443/a/b/c.git", true),
            (Some("git.example:443"), "https://git.example/a.git", true),
            (Some("git.example"), "https://git.example:8443/a/b.git", false),
            (Some("git.example"), "https://github.com/a/b.git", false),
            (Some("127.0.0.1:4000"), "http://127.0.0.1:4000/remote.git", true),
            (Some("127.0.0.1:4000"), "http://127.0.0.1:4001/remote.git", false),
        ] {
            assert_eq!(scope(host).covers(repository), covered, "{host:?} {repository}");
        }
        for host in ["", "https://github.com", "github.com/acme", "user@github.com", "a b", "github.com?"] {
            assert_eq!(TokenScope::parse(Some(host), None), Err(InvalidScope::Host), "{host}");
        }
    }

    #[test]
    fn token_may_be_for_some_repositories_only() {
        let scope = TokenScope::parse(None, Some("acme/shop, Other/*")).unwrap();
        for (repository, covered) in [
            ("https://github.com/acme/shop.git", true),
            ("https://github.com/Acme/Shop", true),
            ("https://github.com/acme/shop-two.git", false),
            ("https://github.com/acme/shop/more.git", false),
            ("https://github.com/other/any.git", true),
            ("https://github.com/other/any/more.git", false),
            ("https://github.com/others/any.git", false),
        ] {
            assert_eq!(scope.covers(repository), covered, "{repository}");
        }
        for invalid in ["acme", "acme/", "*", "*/shop", "a/b/c", "acme/sh*"] {
            let invalid = TokenScope::parse(None, Some(invalid));
            assert_eq!(invalid, Err(InvalidScope::Repositories));
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        use InvalidAddress::{Form, Protocol};
        for (address, reason) in [
            ("", Form),
            ("shop", Form),
            ("-x/y", Form),
            ("a/b/c", Form),
            ("../a", Form),
            ("--upload-pack=x", Form),
            ("ext::sh -c date", Form),
            ("https:/user:secret@host/a", Form),
            ("user:secret@host/a", Form),
            ("ext://x", Protocol),
            ("https://", Protocol),
            ("HTTPS://git.example/a", Protocol),
        ] {
            assert_eq!(parse(address), Err(reason), "{address}");
        }
    }

    #[test]
    fn every_at_sign_in_an_http_url_is_rejected() {
        for address in [
            "https://token@host/a",
            "https://:token@host/a",
            "http://user:token@host/a",
            "https://tok#en@host/a",
            "https://tok/en@host/a",
            "https://user:1?x@host/a",
            "https://user:sec#ret@host/a",
            "https://host/@scope/a",
            "https:/token@host/a://b",
        ] {
            assert_eq!(parse(address), Err(InvalidAddress::Credentials), "{address}");
        }
    }
}
