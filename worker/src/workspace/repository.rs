//! The repository to work on: URL, token and branch.

use crate::secret::Secret;
use contract::repository::{self, InvalidAddress};
use std::path::PathBuf;
use url::{Host, Url};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Without credentials.
    pub url: String,
    pub token: Option<Secret>,
    /// The branch of the task. The default branch is checked out if `None`.
    pub branch: Option<String>,
    /// The branch with which that of the task begins, if the host does not have it. The default branch if `None`.
    pub base: Option<String>,
    /// Whether the plane gives access to the repository, instead of a token.
    pub asks_plane: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRepository {
    #[error("must not contain credentials or any other '@'; set GITHUB_TOKEN instead")]
    Credentials,
    #[error(transparent)]
    InvalidAddress(InvalidAddress),
    #[error("`{0}` is not a valid branch name")]
    InvalidBranch(String),
    #[error("the token for {0} would be sent unencrypted; use https")]
    Unencrypted(String),
}

impl Repository {
    /// `location` is an address that [`contract::repository`] accepts.
    pub fn new(
        location: &str,
        token: Option<Secret>,
        branch: Option<&str>,
    ) -> Result<Self, InvalidRepository> {
        let branch = branch.map(str::trim).filter(|branch| !branch.is_empty());
        if let Some(invalid) = branch.filter(|branch| !is_branch(branch)) {
            return Err(InvalidRepository::InvalidBranch(invalid.to_owned()));
        }
        let url = repository::parse(location.trim()).map_err(|invalid| match invalid {
            InvalidAddress::Credentials => InvalidRepository::Credentials,
            other => InvalidRepository::InvalidAddress(other),
        })?;
        let token = token.filter(|token| !token.reveal().is_empty());
        let repository =
            Self { url, token, branch: branch.map(str::to_owned), base: None, asks_plane: false };
        let has_credential = repository.credential().is_some();
        if has_credential && !is_encrypted(&repository.url) {
            return Err(InvalidRepository::Unencrypted(repository.url));
        }
        Ok(repository)
    }

    /// With the branch to begin with.
    pub fn with_base(mut self, base: Option<&str>) -> Result<Self, InvalidRepository> {
        if let Some(invalid) = base.filter(|base| !is_branch(base)) {
            return Err(InvalidRepository::InvalidBranch(invalid.to_owned()));
        }
        self.base = base.map(str::to_owned);
        Ok(self)
    }

    /// Its directory, if it is on this machine.
    pub fn directory(&self) -> Option<PathBuf> {
        repository::directory(&self.url).map(PathBuf::from)
    }

    /// Whether it is reached through the agent's network policy: no operator has given a credential for it.
    pub fn is_within_policy(&self) -> bool {
        let is_http = Url::parse(&self.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        is_http && self.token.is_none() && !self.asks_plane
    }

    /// The token for its host. `None` for other protocols than HTTP.
    pub fn credential(&self) -> Option<&Secret> {
        let url = Url::parse(&self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        url.and(self.token.as_ref())
    }
}

/// Whether a token may be sent to this URL.
pub(crate) fn is_encrypted(url: &str) -> bool {
    Url::parse(url)
        .is_ok_and(|parsed| parsed.scheme() == "https" || parsed.scheme() == "http" && is_loopback(url))
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
    fn white_space_around_a_location_is_ignored() {
        let repository = Repository::new(" acme/shop ", None, None).unwrap();
        assert_eq!((repository.url.as_str(), repository.token), ("https://github.com/acme/shop.git", None));
    }

    #[test]
    fn error_of_an_invalid_location_contains_no_secret() {
        for location in [
            "https://user:secret@git.example/a",
            "https://user:x#secret@git.example/a",
            "https:/user:secret@git.example/a",
            "HTTPS://user:secret@git.example/a",
            "user:secret@git.example/a",
        ] {
            let invalid = Repository::new(location, None, None).unwrap_err();
            assert!(!format!("{invalid} {invalid:?}").contains("secret"), "{location}: {invalid:?}");
        }
    }

    #[test]
    fn token_is_bound_to_its_repository_and_never_sent_unencrypted() {
        let token = || Some(Secret::new("planted"));
        let credential = |location: &str| {
            Repository::new(location, token(), None).map(|found| found.credential().cloned())
        };
        let found = credential("https://Git.example:8443/a/b").unwrap();
        assert!(found.is_some() && !format!("{found:?}").contains("planted"));
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
