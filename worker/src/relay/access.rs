//! The credential for the repository at its host.

use super::Error;
use crate::clock;
use crate::secret::Secret;
use crate::workspace::is_encrypted;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Attempt, GitAccess, SandboxApi};
use domain::Timestamp;
use tokio::sync::Mutex;

/// User name that GitHub expects with a token.
const USERNAME: &str = "x-access-token";

/// A token is replaced this long before it expires, so that a long operation can end with it.
const REFRESH_SECS: i64 = 5 * 60;

/// Who gives access.
#[derive(Debug, Clone)]
pub enum Source {
    /// The plane, on request and for a short time.
    Plane(SandboxApi),
    /// A token of the worker's environment.
    Token(Secret),
    /// The repository is public, or on this machine.
    None,
}

/// Where the repository is, and what git sends there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    pub url: String,
    /// Value of the header `Authorization`.
    pub authorization: Option<Secret>,
    token: Option<Secret>,
    expires_at: Option<Timestamp>,
}

impl Access {
    fn new(url: String, user: &str, token: Option<Secret>, expires_at: Option<Timestamp>) -> Self {
        let encoded = token.as_ref().map(|token| STANDARD.encode(format!("{user}:{}", token.reveal())));
        let authorization = encoded.map(|encoded| Secret::new(format!("Basic {encoded}")));
        Self { url, authorization, token, expires_at }
    }

    /// Replaces the token in a text of git.
    pub(super) fn redact(&self, text: &str) -> String {
        let secrets = [&self.token, &self.authorization];
        secrets.into_iter().flatten().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires| now.plus_secs(REFRESH_SECS) < expires)
    }
}

#[derive(Debug)]
pub(super) struct Grants {
    source: Source,
    /// The repository, unless the plane names another URL.
    url: String,
    current: Mutex<Option<Access>>,
}

impl Grants {
    pub(super) fn new(source: Source, url: &str) -> Self {
        Self { source, url: url.to_owned(), current: Mutex::new(None) }
    }

    pub(super) async fn access(&self) -> Result<Access, Error> {
        let mut current = self.current.lock().await;
        if let Some(access) = current.as_ref().filter(|access| access.is_fresh(clock::now())) {
            return Ok(access.clone());
        }
        let access = match &self.source {
            Source::None => Access::new(self.url.clone(), USERNAME, None, None),
            Source::Token(token) => Access::new(self.url.clone(), USERNAME, Some(token.clone()), None),
            Source::Plane(api) => from_plane(api).await?,
        };
        *current = Some(access.clone());
        Ok(access)
    }

    /// Discards access that the host has rejected. Returns whether there may be another one.
    pub(super) async fn discard(&self) -> bool {
        *self.current.lock().await = None;
        matches!(self.source, Source::Plane(_))
    }

    /// What to do if the host asks for a credential.
    pub(super) fn advice(&self) -> &'static str {
        match self.source {
            Source::None => "the repository needs a credential, and the worker has none: set GITHUB_TOKEN",
            Source::Token(_) => "the host rejected the token of the worker (GITHUB_TOKEN)",
            Source::Plane(_) => "the host rejected the token of the plane",
        }
    }
}

async fn from_plane(api: &SandboxApi) -> Result<Access, Error> {
    match api.git_access().await {
        Attempt::Answered(GitAccess { url, username, token, expires_at }) => {
            let token = token.filter(|token| !token.is_empty()).map(Secret::new);
            if token.is_some() && !is_encrypted(&url) {
                return Err(Error::NoAccess("its URL is not encrypted".to_owned()));
            }
            Ok(Access::new(url, username.as_deref().unwrap_or(USERNAME), token, expires_at))
        }
        Attempt::Refused(problem) => Err(Error::NoAccess(problem.detail.to_string())),
        Attempt::Failed(failed) => Err(Error::PlaneUnavailable(failed.kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_replaced_before_it_expires() {
        let at = Timestamp::from_secs;
        let access = |expires| Access::new("https://x".into(), "u", Some(Secret::new("t")), expires);
        assert!(access(None).is_fresh(at(1)));
        assert!(access(Some(at(1_000))).is_fresh(at(1_000 - REFRESH_SECS - 1)));
        assert!(!access(Some(at(1_000))).is_fresh(at(1_000 - REFRESH_SECS)));
    }

    #[test]
    fn no_form_of_the_token_is_shown() {
        let access = Access::new("https://x".into(), "u", Some(Secret::new("planted")), None);
        let header = access.authorization.clone().unwrap();
        assert_eq!(header.reveal(), format!("Basic {}", STANDARD.encode("u:planted")));
        let text = format!("failed with planted and {}", header.reveal());
        assert_eq!(access.redact(&text), "failed with [redacted] and [redacted]");
        assert!(!format!("{access:?}").contains("planted"));
    }
}
