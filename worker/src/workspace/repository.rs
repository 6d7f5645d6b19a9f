//! The repository to work on: URL, token and branch.

use crate::secret::Secret;
use contract::repository::{self, InvalidAddress};
use std::path::PathBuf;
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

/// A token for one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub url: Url,
    pub username: String,
    pub token: Secret,
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
        let repository = Self { url, token, branch: branch.map(str::to_owned) };
        let is_unencrypted = repository
            .credential()
            .is_some_and(|credential| credential.url.scheme() != "https" && !is_loopback(&repository.url));
        if is_unencrypted { Err(InvalidRepository::Unencrypted(repository.url)) } else { Ok(repository) }
    }

    /// Its directory, if it is on this machine.
    pub fn directory(&self) -> Option<PathBuf> {
        repository::directory(&self.url).map(PathBuf::from)
    }

    /// The URL and the key of an endpoint for the agent's git. `None` without a token, or for other protocols than HTTP.
    pub fn credential(&self) -> Option<Credential> {
        let url = Url::parse(&self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        Some(Credential { url, username: USERNAME.to_owned(), token: self.token.clone()? })
    }

    /// Replaces the token in `text` with a placeholder.
    pub fn redact(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.redact(text))
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
        let credential =
            |location: &str| Repository::new(location, token(), None).map(|found| found.credential());
        let found = credential("https://Git.example:8443/a/b").unwrap().unwrap();
        assert_eq!(found.url.as_str(), "https://git.example:8443/a/b");
        assert!(!format!("{found:?}").contains("planted"));
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
