//! Sign-in of the console by a link with a one-time code. Only a local plane has these routes.

use crate::bad_input::BadInput;
use crate::fields::{Fields, required};
use domain::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST` creates a code; only with an operator's own token.
pub const CODES_PATH: &str = "/api/v1/sign-in/codes";
/// `POST` exchanges a code for a token; without authentication.
pub const SIGN_IN_PATH: &str = "/api/v1/sign-in";

/// The response of `POST /api/v1/sign-in/codes`.
#[derive(Debug, Serialize, Deserialize)]
pub struct SignInCode {
    /// `None` without authentication, where no code is needed.
    pub code: Option<String>,
    pub expires_in_secs: u64,
}

/// The body of `POST /api/v1/sign-in`.
#[derive(Debug, Serialize)]
pub struct SignIn {
    pub code: String,
}

impl SignIn {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let code = Fields::decode(body)?.line("code", MAX_CODE_CHARS)?;
        Ok(Self { code: required("code", code)? })
    }
}

/// More than any code has.
const MAX_CODE_CHARS: usize = 256;

/// The response of `POST /api/v1/sign-in`.
#[derive(Debug, Serialize)]
pub struct SignedIn {
    /// The bearer token of this browser.
    pub token: String,
    pub expires_at: Timestamp,
}

/// The link to the console of a plane. The code is in the fragment, which browsers send to no server.
pub fn console_link(plane: &str, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("{plane}/#code={code}"),
        None => format!("{plane}/"),
    }
}
