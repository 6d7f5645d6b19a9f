//! The repository to work on: URL, token and branch.

use super::credential::Credential;
use crate::secret::Secret;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// User name that GitHub expects with a token.
const USERNAME: &str = "x-access-token";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Without credentials.
    pub url: String,
    pub token: Option<Secret>,
    /// The default branch if `None`.
    pub branch: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRepository {
    #[error("`{0}` is neither owner/name nor a repository URL")]
    InvalidUrl(String),
    #[error("`{0}` is not a valid branch name")]
    InvalidBranch(String),
    #[error("the token for {0} would be sent unencrypted; use https")]
    Unencrypted(String),
}

impl Repository {
    /// Parses `owner/name` (on github.com) or a URL. A secret in the URL is removed, and used if `token` is `None`.
    pub fn new(
        location: &str,
        token: Option<Secret>,
        branch: Option<&str>,
    ) -> Result<Self, InvalidRepository> {
        let branch = branch.map(str::trim).filter(|branch| !branch.is_empty());
        if let Some(invalid) = branch.filter(|branch| !is_branch(branch)) {
            return Err(InvalidRepository::InvalidBranch(invalid.to_owned()));
        }
        let (url, found) = parse_location(location.trim())?;
        let token = token.filter(|token| !token.reveal().is_empty()).or(found);
        let repository = Self { url, token, branch: branch.map(str::to_owned) };
        let is_unencrypted = repository
            .credential()
            .is_some_and(|credential| credential.protocol != "https" && !is_loopback(&repository.url));
        if is_unencrypted { Err(InvalidRepository::Unencrypted(repository.url)) } else { Ok(repository) }
    }

    /// Credential for git; `None` without a token or for other protocols than HTTP.
    pub fn credential(&self) -> Option<Credential> {
        let url = Url::parse(&self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let host = match (url.host_str()?, url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let token = self.token.clone()?;
        Some(Credential { protocol: url.scheme().to_owned(), host, username: USERNAME.to_owned(), token })
    }

    /// Replaces the token in `text` with a placeholder.
    pub fn redact(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.redact(text))
    }
}

fn parse_location(location: &str) -> Result<(String, Option<Secret>), InvalidRepository> {
    if location.contains("://") {
        // Without what may be a secret.
        let invalid =
            || InvalidRepository::InvalidUrl(location.rsplit('@').next().unwrap_or_default().to_owned());
        // git knows the names of protocols in lower case only.
        let is_known = |scheme: &str| {
            ["http", "https", "ssh", "git", "file"].contains(&scheme) && location.starts_with(scheme)
        };
        let url = Url::parse(location).ok().filter(|url| is_known(url.scheme()));
        let mut url = url.ok_or_else(invalid)?;
        if !url.scheme().starts_with("http") {
            return Ok((location.to_owned(), None));
        }
        let secret = percent_decode_str(url.password().unwrap_or(url.username())).decode_utf8_lossy();
        let token = Some(secret).filter(|secret| !secret.is_empty()).map(Secret::new);
        let removed = url.set_username("").and_then(|()| url.set_password(None));
        removed.map_err(|()| invalid())?;
        // Normalized, so that git requests the credential for the host that [`Repository::credential`] names.
        return Ok((url.into(), token));
    }
    let part = |part: &str| {
        let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(plain)
    };
    match location.split_once('/') {
        Some((owner, name)) if part(owner) && part(name) => {
            let name = name.strip_suffix(".git").unwrap_or(name);
            Ok((format!("https://github.com/{owner}/{name}.git"), None))
        }
        // A directory, or `git@host:path`.
        _ if location.starts_with('/') => Ok((location.to_owned(), None)),
        _ if location.split_once('@').is_some_and(|(user, path)| part(user) && path.contains(':')) => {
            Ok((location.to_owned(), None))
        }
        _ => Err(InvalidRepository::InvalidUrl(location.to_owned())),
    }
}

fn is_loopback(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The subset of `git check-ref-format --branch` that matters for safety. Git checks the rest.
fn is_branch(name: &str) -> bool {
    let is_invalid = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    !name.starts_with(['-', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains(is_invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_parsed() {
        for (location, url, token) in [
            ("acme/shop", "https://github.com/acme/shop.git", None),
            (" acme/shop.git ", "https://github.com/acme/shop.git", None),
            ("https://github.com/acme/shop", "https://github.com/acme/shop", None),
            ("https://user:secret@git.example/a/b.git", "https://git.example/a/b.git", Some("secret")),
            ("https://secret@git.example/a/b.git", "https://git.example/a/b.git", Some("secret")),
            ("https://u:s%2Fcret@git.example/a/b.git", "https://git.example/a/b.git", Some("s/cret")),
            ("https://Git.example:443/a/b.git", "https://git.example/a/b.git", None),
            ("git@github.com:acme/shop.git", "git@github.com:acme/shop.git", None),
            ("ssh://git@host/a", "ssh://git@host/a", None),
            ("/srv/shop.git", "/srv/shop.git", None),
        ] {
            let repository = Repository::new(location, None, None).unwrap();
            assert_eq!(
                (repository.url.as_str(), repository.token),
                (url, token.map(Secret::new)),
                "{location}"
            );
        }
        for location in [
            "",
            "shop",
            "-x/y",
            "a/b/c",
            "ext::sh -c date",
            "ext://x",
            "HTTPS://git.example/a",
            "../a",
            "--upload-pack=x",
        ] {
            assert!(Repository::new(location, None, None).is_err(), "{location}");
        }
    }

    #[test]
    fn error_of_an_invalid_url_contains_no_secret() {
        let invalid = Repository::new("https://user:sec#ret@git.example/a", None, None).unwrap_err();
        assert_eq!(invalid, InvalidRepository::InvalidUrl("git.example/a".to_owned()));
    }

    #[test]
    fn token_is_bound_to_its_host_and_never_sent_unencrypted() {
        let token = || Some(Secret::new("secret"));
        let credential =
            |location: &str| Repository::new(location, token(), None).map(|found| found.credential());
        let found = credential("https://Git.example:8443/a/b").unwrap().unwrap();
        assert_eq!((found.protocol.as_str(), found.host.as_str()), ("https", "git.example:8443"));
        assert!(credential("http://127.0.0.1:80/a").unwrap().is_some());
        assert!(credential("http://[::1]/a").unwrap().is_some());
        assert_eq!(credential("/srv/a.git").unwrap(), None);
        assert!(matches!(credential("http://git.example/a"), Err(InvalidRepository::Unencrypted(_))));
        assert!(matches!(
            credential("http://127.0.0.1.evil.example/a"),
            Err(InvalidRepository::Unencrypted(_))
        ));
    }

    #[test]
    fn invalid_branch_names_are_rejected() {
        for (name, valid) in
            [("feature/x-1", true), ("--force", false), ("a..b", false), ("a b", false), ("a/", false)]
        {
            assert_eq!(Repository::new("a/b", None, Some(name)).is_ok(), valid, "{name}");
        }
        assert_eq!(Repository::new("a/b", None, Some(" ")).unwrap().branch, None);
    }
}
