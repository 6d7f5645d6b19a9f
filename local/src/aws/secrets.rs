//! Secrets Manager.

use super::connector::{Reply, validation_error};
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
    pub(super) fn put(&self, name: &str, value: &str) {
        self.0.lock().expect("no code panics while it holds the secrets").insert(name.into(), value.into());
    }

    pub(super) fn call(&self, operation: &str, body: &[u8]) -> Reply {
        if operation != "GetSecretValue" {
            return validation_error(&format!("{operation} is not supported by the in-process AWS"));
        }
        let request: GetSecretValue = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return validation_error(&error.to_string()),
        };
        let secrets = self.0.lock().expect("no code panics while it holds the secrets");
        let (status, body) = match secrets.get(&request.secret_id) {
            Some(secret) => (200, json!({"Name": request.secret_id, "SecretString": secret})),
            None => (400, json!({"__type": "ResourceNotFoundException", "message": "secret not found"})),
        };
        Reply::json(status, &body)
    }
}

/// Omits the secrets: debug output ends up in logs.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
