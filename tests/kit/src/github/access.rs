//! Tokens, Apps, and what they may do.

use super::faults::Operation;
use super::rest::{Call, Reply};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long a token of an App is valid.
const TOKEN_LIFETIME_SECS: i64 = 3600;

/// Length of what PKCS #8 has in front of an RSA key with 2048 bits in PKCS #1, the form in which GitHub provides
/// keys.
const PKCS8_HEADER_BYTES: usize = 26;

/// A token that the fake accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// Empty for all.
    repositories: Vec<String>,
    may_push: bool,
    of_app: Option<AppGrant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AppGrant {
    id: u64,
    permissions: BTreeMap<String, String>,
    expires_at_secs: i64,
}

impl Token {
    /// A token of a person who may push to all repositories.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), repositories: Vec::new(), may_push: true, of_app: None }
    }

    /// A token of a person who may only read.
    pub fn read_only(text: &str) -> Self {
        Self { may_push: false, ..Self::new(text) }
    }

    /// The same token for some repositories.
    #[must_use]
    pub fn for_repositories(mut self, names: &[&str]) -> Self {
        self.repositories = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    pub(super) fn app_id(&self) -> Option<u64> {
        self.of_app.as_ref().map(|app| app.id)
    }

    /// Who this is, whatever token of an App it is.
    pub(super) fn identity(&self) -> String {
        self.app_id().map_or_else(|| self.text.clone(), |id| format!("app-{id}"))
    }

    pub(super) fn may_push(&self) -> bool {
        self.may_push
    }

    pub(super) fn sees(&self, repository: &str) -> bool {
        self.repositories.is_empty() || self.repositories.iter().any(|name| name == repository)
    }

    /// Refuses what the token may not do in a repository that it sees.
    pub(super) fn check(&self, operation: Operation) -> Result<(), Reply> {
        let (permission, level) = requirement(operation);
        let Some(app) = &self.of_app else {
            if permission == "checks" && level == "write" {
                return Err(Reply::refusal(403, "You must authenticate via a GitHub App."));
            }
            let allowed = level == "read" || self.may_push;
            return allowed
                .then_some(())
                .ok_or_else(|| Reply::refusal(403, "Resource not accessible by personal access token"));
        };
        let granted = app.permissions.get(permission).map(String::as_str);
        let allowed = permission == "metadata" || granted == Some("write") || granted == Some(level);
        allowed.then_some(()).ok_or_else(|| Reply::refusal(403, "Resource not accessible by integration"))
    }
}

/// Permission and level that an operation needs.
fn requirement(operation: Operation) -> (&'static str, &'static str) {
    match operation {
        Operation::Repository
        | Operation::UserRepositories
        | Operation::Installations
        | Operation::InstallationRepositories
        | Operation::Installation
        | Operation::CreateToken => ("metadata", "read"),
        Operation::Branches | Operation::Branch | Operation::Compare | Operation::Fetch => {
            ("contents", "read")
        }
        Operation::CreateBranch | Operation::DeleteBranch | Operation::Merge | Operation::Push => {
            ("contents", "write")
        }
        Operation::PullRequests | Operation::PullRequest | Operation::Discussion => ("pull_requests", "read"),
        Operation::CreatePullRequest
        | Operation::UpdatePullRequest
        | Operation::Comment
        | Operation::ReplyToThread
        | Operation::ResolveThread => ("pull_requests", "write"),
        Operation::JobLog => ("actions", "read"),
        Operation::CheckRuns => ("checks", "read"),
        Operation::CreateCheckRun | Operation::UpdateCheckRun => ("checks", "write"),
        Operation::Statuses => ("statuses", "read"),
        Operation::CreateStatus => ("statuses", "write"),
    }
}

/// A GitHub App with one installation.
#[derive(Clone)]
pub struct App {
    id: u64,
    private_key: String,
    public_key: DecodingKey,
    repositories: Vec<String>,
    permissions: BTreeMap<String, String>,
}

impl App {
    /// An App with a new key, installed for these repositories, with the permissions that the plane needs.
    pub fn new(id: u64, repositories: &[&str]) -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("a new key");
        let der: Pkcs8V1Der<'_> = pair.as_der().expect("a new key has a form");
        let body = STANDARD.encode(&der.as_ref()[PKCS8_HEADER_BYTES..]);
        let permissions = [
            ("contents", "write"),
            ("pull_requests", "write"),
            ("checks", "write"),
            ("statuses", "read"),
            ("metadata", "read"),
        ];
        Self {
            id,
            private_key: format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"),
            public_key: DecodingKey::from_rsa_der(pair.public_key().as_ref()),
            repositories: repositories.iter().map(|&name| name.to_owned()).collect(),
            permissions: permissions.map(|(name, level)| (name.to_owned(), level.to_owned())).into(),
        }
    }

    /// The same App with other permissions: `("contents", "read")`.
    #[must_use]
    pub fn with_permissions(mut self, permissions: &[(&str, &str)]) -> Self {
        self.permissions =
            permissions.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect();
        self
    }

    /// The key as GitHub provides it: PEM.
    pub fn private_key(&self) -> &str {
        &self.private_key
    }

    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct Access {
    pub tokens: Vec<Token>,
    pub apps: Vec<App>,
    created: u64,
}

/// Who sends a request.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    Token(Token),
    App(App),
}

#[derive(Deserialize)]
struct Claims {
    iat: i64,
    exp: i64,
    iss: String,
}

impl Access {
    pub(super) fn caller(&self, credential: Option<&str>, now_secs: i64) -> Result<Caller, Reply> {
        let bad = || Reply::refusal(401, "Bad credentials");
        let credential = credential.ok_or_else(|| Reply::refusal(401, "Requires authentication"))?;
        if let Some(token) = self.token(credential, now_secs) {
            return Ok(Caller::Token(token.clone()));
        }
        self.apps
            .iter()
            .find(|app| is_jwt_of(app, credential, now_secs))
            .cloned()
            .map(Caller::App)
            .ok_or_else(bad)
    }

    pub(super) fn revoke(&mut self, token: &str) {
        self.tokens.retain(|found| found.text != token && (!token.is_empty() || found.of_app.is_none()));
    }

    /// Whether git may do this; `None` without a valid token.
    pub(super) fn permits_git(
        &self,
        credential: Option<&str>,
        repository: &str,
        operation: Operation,
        now_secs: i64,
    ) -> Option<bool> {
        let token = self.token(credential?, now_secs)?;
        Some(token.sees(repository) && token.check(operation).is_ok())
    }

    /// Requests that authenticate with a JWT of the App.
    pub(super) fn perform(&mut self, app: &App, call: &Call) -> Reply {
        if call.operation == Operation::Installations {
            let found = json!([{"id": app.id * 1000, "app_id": app.id, "suspended_at": null}]);
            return Reply::new(200, found);
        }
        if call.operation == Operation::Installation {
            let installed = app.repositories.contains(&call.repository());
            return if installed {
                Reply::new(200, json!({"id": app.id * 1000, "app_id": app.id}))
            } else {
                Reply::refusal(404, "Not Found")
            };
        }
        if call.path[2] != (app.id * 1000).to_string() {
            return Reply::refusal(404, "Not Found");
        }
        self.create_token(app, call)
    }

    fn create_token(&mut self, app: &App, call: &Call) -> Reply {
        let names = call.body["repositories"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let find = |name| {
            app.repositories.iter().find(|full| full.split_once('/').is_some_and(|(_, found)| found == name))
        };
        let repositories: Option<Vec<String>> = names.map(|name| find(name).cloned()).collect();
        let Some(repositories) = repositories else {
            return Reply::refusal(
                422,
                "There is at least one repository that does not exist or is not accessible to the parent \
                 installation.",
            );
        };
        let wanted: BTreeMap<String, String> = serde_json::from_value(call.body["permissions"].clone())
            .unwrap_or_else(|_| app.permissions.clone());
        let has = |(name, level): (&String, &String)| {
            app.permissions.get(name).is_some_and(|granted| granted == "write" || granted == level)
        };
        if !wanted.iter().all(has) {
            return Reply::refusal(422, "The permissions requested are not granted to this installation.");
        }
        self.created += 1;
        let text = format!("ghs_{}_{}", app.id, self.created);
        let expires_at_secs = call.now_secs + TOKEN_LIFETIME_SECS;
        let expires_at =
            OffsetDateTime::from_unix_timestamp(expires_at_secs).expect("a time of this century");
        let expires_at = expires_at.format(&Rfc3339).expect("a time of this century");
        let body = json!({"token": text, "expires_at": expires_at, "permissions": wanted});
        let grant = AppGrant { id: app.id, permissions: wanted, expires_at_secs };
        let repositories = if repositories.is_empty() { app.repositories.clone() } else { repositories };
        self.tokens.push(Token { text, repositories, may_push: true, of_app: Some(grant) });
        Reply::new(201, body)
    }

    fn token(&self, text: &str, now_secs: i64) -> Option<&Token> {
        let found = self.tokens.iter().find(|token| token.text == text)?;
        found.of_app.as_ref().is_none_or(|app| app.expires_at_secs > now_secs).then_some(found)
    }
}

/// GitHub accepts at most ten minutes, and no JWT from the future.
fn is_jwt_of(app: &App, jwt: &str, now_secs: i64) -> bool {
    let mut rules = Validation::new(Algorithm::RS256);
    rules.validate_exp = false;
    let Ok(decoded) = jsonwebtoken::decode::<Claims>(jwt, &app.public_key, &rules) else { return false };
    let Claims { iat, exp, iss } = decoded.claims;
    iss == app.id.to_string() && iat <= now_secs && exp > now_secs && exp <= now_secs + 600
}
