//! Tokens of Apps: made for one repository with the permissions that their use needs, and kept until shortly
//! before they expire.

use super::credential::App;
use super::http::{Call, Http};
use crate::{Failure, Reason, Secret};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A token that expires earlier is replaced, so that a caller can use it for at least this long.
const MIN_LIFETIME_SECS: i64 = 5 * 60;

/// What a token is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// Requests of the plane.
    Api,
    /// Fetching and pushing by a worker.
    Git,
    /// Listing the repositories of an installation.
    List,
    /// Reading logs of checks. Apps that were created for the other uses may lack this permission.
    Logs,
}

impl Purpose {
    /// The permissions of an App that the purpose needs.
    fn permissions(self) -> Value {
        match self {
            Self::Api => json!({
                "contents": "write", "pull_requests": "write", "checks": "write", "statuses": "read",
            }),
            Self::Git => json!({"contents": "write"}),
            Self::List => json!({"metadata": "read"}),
            Self::Logs => json!({"actions": "read"}),
        }
    }
}

/// Tokens of all Apps that this process uses.
#[derive(Clone, Default)]
pub(crate) struct TokenCache(Arc<Mutex<BTreeMap<Key, Token>>>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    api_url: String,
    app_id: String,
    app_key: Secret,
    repository: String,
    purpose: Purpose,
}

#[derive(Clone)]
pub(super) struct Token {
    pub secret: Secret,
    pub expires_at_secs: i64,
}

impl TokenCache {
    fn get(&self, key: &Key, now_secs: i64) -> Option<Token> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(key).filter(|token| token.expires_at_secs >= now_secs + MIN_LIFETIME_SECS).cloned()
    }

    fn insert(&self, key: Key, token: Token, now_secs: i64) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, token| token.expires_at_secs > now_secs);
        tokens.insert(key, token);
    }

    fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCache")
    }
}

impl Http {
    /// A token of the App for this repository.
    pub(super) async fn app_token(&self, app: &App, purpose: Purpose) -> Result<Token, Failure> {
        let (key, now_secs) = (self.key(app, purpose, self.full_name()), self.now_secs());
        if let Some(token) = self.tokens.get(&key, now_secs) {
            return Ok(token);
        }
        let token = self.new_token(app, purpose).await?;
        self.tokens.insert(key, token.clone(), now_secs);
        Ok(token)
    }

    /// Forgets a token that GitHub rejects.
    pub(super) fn forget_token(&self, app: &App, purpose: Purpose) {
        self.tokens.remove(&self.key(app, purpose, self.full_name()));
    }

    /// A token of the App for all repositories of an installation, with which it can only list them.
    pub(super) async fn installation_token(&self, app: &App, installation: u64) -> Result<Token, Failure> {
        // No repository has a name without an owner.
        let key = self.key(app, Purpose::List, installation.to_string());
        let now_secs = self.now_secs();
        if let Some(token) = self.tokens.get(&key, now_secs) {
            return Ok(token);
        }
        let body = json!({"permissions": Purpose::List.permissions()});
        let token = self.create_token(&app.jwt(now_secs)?, installation, &body).await?;
        self.tokens.insert(key, token.clone(), now_secs);
        Ok(token)
    }

    fn key(&self, app: &App, purpose: Purpose, repository: String) -> Key {
        Key {
            api_url: self.api_url.clone(),
            app_id: app.id.clone(),
            app_key: app.key_text.clone(),
            repository,
            purpose,
        }
    }

    async fn new_token(&self, app: &App, purpose: Purpose) -> Result<Token, Failure> {
        let jwt = app.jwt(self.now_secs())?;
        let path = format!("/repos/{}/installation", self.full_name());
        let call = Call::new(Method::GET, &path, "finding the installation of the App");
        let found = self.send_with(&jwt, &call).await.map_err(|error| match error.status {
            Some(404) => Failure::new(
                Reason::NotFound,
                format!("the GitHub App {} is not installed for {}", app.id, self.full_name()),
            ),
            _ => error.into(),
        })?;
        let installation = found.body["id"].as_u64().ok_or_else(|| unexpected("no id of an installation"))?;
        let body = json!({"repositories": [self.repository], "permissions": purpose.permissions()});
        self.create_token(&jwt, installation, &body).await
    }

    async fn create_token(&self, jwt: &Secret, installation: u64, body: &Value) -> Result<Token, Failure> {
        let path = format!("/app/installations/{installation}/access_tokens");
        let call = Call::new(Method::POST, &path, "creating a token of the App").body(body);
        let created = self.send_with(jwt, &call).await.map_err(|error| match error.status {
            // A permission that the App does not have.
            Some(422) => Failure { reason: Reason::PushForbidden, ..error.failure },
            _ => error.into(),
        })?;
        let expires_at = created.body["expires_at"].as_str();
        let expires_at = expires_at.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        match (created.body["token"].as_str(), expires_at) {
            (Some(token), Some(expires_at)) => {
                Ok(Token { secret: Secret::new(token), expires_at_secs: expires_at.unix_timestamp() })
            }
            _ => Err(unexpected("no token with an expiry")),
        }
    }
}

fn unexpected(what: &str) -> Failure {
    Failure::new(Reason::Unreachable, format!("GitHub's response to a request of the App has {what}"))
}
