//! Which repository, where it is, and who may fetch it.

use super::credential::Credential;
use crate::secret::Secret;

/// Who git says it is to GitHub when it has a token.
const USERNAME: &str = "x-access-token";

/// A repository to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Where it is, without any secret.
    pub url: String,
    /// What opens it.
    pub token: Option<Secret>,
    /// The branch to work on. The default branch if there is none.
    pub branch: Option<String>,
}

/// Why a repository cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRepository {
    /// It is no address.
    #[error("`{0}` is neither owner/name nor the address of a repository")]
    Address(String),
    /// It is no branch.
    #[error("`{0}` is no name of a branch")]
    Branch(String),
    /// The token would travel in clear.
    #[error("the token for {0} would be sent in clear: use https")]
    InClear(String),
}

impl Repository {
    /// From `owner/name` (on github.com) or an address. A secret in the address is taken out of it, and used if there is
    /// no other.
    pub fn new(place: &str, token: Option<Secret>, branch: Option<&str>) -> Result<Self, BadRepository> {
        let branch = branch.map(str::trim).filter(|branch| !branch.is_empty());
        if let Some(bad) = branch.filter(|branch| !is_branch(branch)) {
            return Err(BadRepository::Branch(bad.to_owned()));
        }
        let (url, found) = address(place.trim())?;
        let token = token.filter(|token| !token.reveal().is_empty()).or(found);
        let repository = Self { url, token, branch: branch.map(str::to_owned) };
        let in_clear = repository
            .credential()
            .is_some_and(|credential| credential.protocol != "https" && !is_loopback(&credential.host));
        if in_clear { Err(BadRepository::InClear(repository.url)) } else { Ok(repository) }
    }

    /// What git is to be told when it asks.
    pub fn credential(&self) -> Option<Credential> {
        let (protocol, rest) = self.url.split_once("://")?;
        if !matches!(protocol, "http" | "https") {
            return None;
        }
        let host = rest.split('/').next()?.to_ascii_lowercase();
        let token = self.token.clone()?;
        Some(Credential { protocol: protocol.to_owned(), host, username: USERNAME.to_owned(), token })
    }

    /// A text without the token.
    pub fn redact(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.redact(text))
    }
}

fn address(place: &str) -> Result<(String, Option<Secret>), BadRepository> {
    if let Some((protocol, rest)) = place.split_once("://") {
        if !matches!(protocol, "http" | "https" | "ssh" | "git" | "file") {
            return Err(BadRepository::Address(place.to_owned()));
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        return Ok(match host.rsplit_once('@').filter(|_| protocol.starts_with("http")) {
            Some((user, host)) => {
                let secret = user.split_once(':').map_or(user, |(_, secret)| secret);
                let token = Some(secret).filter(|secret| !secret.is_empty()).map(Secret::new);
                (format!("{protocol}://{host}/{path}"), token)
            }
            None => (place.to_owned(), None),
        });
    }
    let part = |part: &str| {
        let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(plain)
    };
    match place.split_once('/') {
        Some((owner, name)) if part(owner) && part(name) => {
            let name = name.strip_suffix(".git").unwrap_or(name);
            Ok((format!("https://github.com/{owner}/{name}.git"), None))
        }
        // A folder, or `git@host:path`.
        _ if place.starts_with('/') => Ok((place.to_owned(), None)),
        _ if place.split_once('@').is_some_and(|(user, path)| part(user) && path.contains(':')) => {
            Ok((place.to_owned(), None))
        }
        _ => Err(BadRepository::Address(place.to_owned())),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

/// The rules of `git check-ref-format --branch` that matter to us: git itself checks the rest.
fn is_branch(name: &str) -> bool {
    let bad = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    !name.starts_with(['-', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_understood() {
        for (place, url, token) in [
            ("acme/shop", "https://github.com/acme/shop.git", None),
            (" acme/shop.git ", "https://github.com/acme/shop.git", None),
            ("https://github.com/acme/shop", "https://github.com/acme/shop", None),
            ("https://user:secret@git.example/a/b.git", "https://git.example/a/b.git", Some("secret")),
            ("https://secret@git.example/a/b.git", "https://git.example/a/b.git", Some("secret")),
            ("git@github.com:acme/shop.git", "git@github.com:acme/shop.git", None),
            ("ssh://git@host/a", "ssh://git@host/a", None),
            ("/srv/shop.git", "/srv/shop.git", None),
        ] {
            let repository = Repository::new(place, None, None).unwrap();
            assert_eq!((repository.url.as_str(), repository.token), (url, token.map(Secret::new)), "{place}");
        }
        for place in ["", "shop", "-x/y", "a/b/c", "ext::sh -c date", "ext://x", "../a", "--upload-pack=x"] {
            assert!(Repository::new(place, None, None).is_err(), "{place}");
        }
    }

    #[test]
    fn a_token_belongs_to_one_host_and_never_travels_in_clear() {
        let token = || Some(Secret::new("secret"));
        let credential = |place: &str| Repository::new(place, token(), None).map(|found| found.credential());
        let found = credential("https://Git.example:8443/a/b").unwrap().unwrap();
        assert_eq!((found.protocol.as_str(), found.host.as_str()), ("https", "git.example:8443"));
        assert!(credential("http://127.0.0.1:80/a").unwrap().is_some());
        assert_eq!(credential("/srv/a.git").unwrap(), None);
        assert!(matches!(credential("http://git.example/a"), Err(BadRepository::InClear(_))));
        assert!(matches!(credential("http://127.0.0.1.evil.example/a"), Err(BadRepository::InClear(_))));
    }

    #[test]
    fn names_that_are_no_branch_are_refused() {
        for (name, good) in
            [("feature/x-1", true), ("--force", false), ("a..b", false), ("a b", false), ("a/", false)]
        {
            assert_eq!(Repository::new("a/b", None, Some(name)).is_ok(), good, "{name}");
        }
        assert_eq!(Repository::new("a/b", None, Some(" ")).unwrap().branch, None);
    }
}
