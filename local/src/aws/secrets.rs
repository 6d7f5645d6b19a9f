//! Secrets Manager: the plane's keys, by name.

use super::connector::{Reply, refused};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

#[derive(Default)]
pub(super) struct Secrets(Mutex<HashMap<String, String>>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetSecretValue {
    secret_id: String,
}

impl Secrets {
    pub(super) fn keep(&self, name: &str, value: &str) {
        self.0.lock().expect("no code panics while it holds the secrets").insert(name.into(), value.into());
    }

    pub(super) fn call(&self, operation: &str, body: &[u8]) -> Reply {
        if operation != "GetSecretValue" {
            return refused(&format!("{operation} is not something that this plane uses"));
        }
        let request: GetSecretValue = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return refused(&error.to_string()),
        };
        let secrets = self.0.lock().expect("no code panics while it holds the secrets");
        let (status, body) = match secrets.get(&request.secret_id) {
            Some(secret) => (200, json!({"Name": request.secret_id, "SecretString": secret})),
            None => {
                (400, json!({"__type": "ResourceNotFoundException", "message": "there is no such secret"}))
            }
        };
        Reply::json(status, &body)
    }
}

/// Secrets are not for logs.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
