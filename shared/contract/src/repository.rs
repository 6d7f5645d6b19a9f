//! Parses the address of a repository. The plane and the worker use this parser, so the plane accepts only what
//! workers support.

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
