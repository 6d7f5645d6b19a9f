//! Sign-in of the console: creates one-time codes, and exchanges them for tokens of browsers. These routes are not in the
//! registry, because on AWS operators have no machine on which a link could be printed.

use super::http::{BodyError, read_body};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use contract::sign_in::{CODES_PATH, SIGN_IN_PATH, SignIn, SignInCode, SignedIn};
use contract::{BadInput, ProblemCode};
use domain::Invalid;
use domain::access::Principal;
use edge::Plane;
use edge::auth::{AuthError, CODE_SECS, SIGN_IN_SECS, SignInCodes, bearer};
use edge::guard::{Guard, GuardError};
use edge::http::{REQUEST_ID, REQUEST_TIMEOUT, SourceIp, guard_refusal, json, request_id};
use edge::problem::{self, Refusal};
use http::header::{ALLOW, CACHE_CONTROL, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};

/// A body has one code.
const MAX_BODY_BYTES: usize = 1024;

pub fn is_path(path: &str) -> bool {
    [CODES_PATH, SIGN_IN_PATH].contains(&path)
}

/// `codes` is `None` without authentication.
pub async fn respond(plane: &Plane, codes: Option<&SignInCodes>, head: &Parts, body: Body) -> Response {
    let request_id = request_id(&head.headers, plane.ids.as_ref());
    let outcome = match head.uri.path() {
        CODES_PATH => create(plane, codes, head).await,
        _ => exchange(plane, codes, head, body).await,
    };
    let (mut response, operator) = match outcome {
        Ok((response, operator)) => (response, Some(operator)),
        Err(Failure::Refused(refusal)) => (refusal.response(&request_id), None),
        Err(Failure::App(error)) => (problem::response(&error, &request_id), None),
    };
    let headers = response.headers_mut();
    // A response may have a code or a token.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        headers.insert(REQUEST_ID, id);
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    log(head, response.status(), &request_id, operator.as_deref());
    response.map(Body::from)
}

enum Failure {
    Refused(Refusal),
    App(app::Error),
}

impl From<app::Error> for Failure {
    fn from(error: app::Error) -> Self {
        Self::App(error)
    }
}

impl From<BadInput> for Failure {
    fn from(error: BadInput) -> Self {
        Self::App(error.into())
    }
}

/// The response, and the name of the operator.
type Outcome = Result<(http::Response<Bytes>, String), Failure>;

async fn create(plane: &Plane, codes: Option<&SignInCodes>, head: &Parts) -> Outcome {
    check(plane, head)?;
    let identity = plane.authenticator.authenticate(bearer(&head.headers)).await;
    let identity = identity.map_err(AuthError::into_app)?;
    let operator = match identity.principal {
        // A browser's token expires. If it could create codes, one that was stolen could be renewed without end.
        Principal::Operator { name } if identity.expires_at.is_none() => name,
        _ => {
            return Err(
                app::Error::Forbidden("Only the operator's own token can create sign-in codes.").into()
            );
        }
    };
    let code = codes.map(|codes| codes.create(&operator));
    let expires_in_secs = CODE_SECS.unsigned_abs();
    Ok((json(StatusCode::CREATED, &SignInCode { code, expires_in_secs }), operator))
}

async fn exchange(plane: &Plane, codes: Option<&SignInCodes>, head: &Parts, body: Body) -> Outcome {
    check(plane, head)?;
    // `check` compares it. Browsers send it with every POST; of a request without it, the origin is unknown.
    if !head.headers.contains_key(ORIGIN) {
        return Err(Failure::Refused(OTHER_ORIGIN));
    }
    let body = read_body(body, MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => {
            let limit = Invalid::new("body", format!("must be at most {MAX_BODY_BYTES} bytes"));
            Failure::from(BadInput::TooLarge(limit))
        }
        BodyError::Incomplete => Failure::Refused(REQUEST_TIMEOUT),
    })?;
    let SignIn { code } = SignIn::decode(&body)?;
    let operator =
        codes.and_then(|codes| codes.exchange(&code)).ok_or(app::Error::Unauthorized(INVALID_CODE))?;
    let expires_at = plane.clock.now().plus_secs(SIGN_IN_SECS);
    let token = plane.authenticator.sign_in_token(&operator, expires_at)?;
    Ok((json(StatusCode::OK, &SignedIn { token, expires_at }), operator))
}

/// No other origin may use these routes, not even one that may use the API: codes and tokens stay with the console of
/// this plane.
fn check(plane: &Plane, head: &Parts) -> Result<(), Failure> {
    let guard = Guard { origins: Vec::new(), ..plane.settings.guard.clone() };
    let checked = guard.check(&head.headers).and_then(|()| guard.check_site(&head.headers));
    checked.map_err(|error| match error {
        GuardError::Host => Failure::Refused(guard_refusal(error)),
        GuardError::Origin => Failure::Refused(OTHER_ORIGIN),
    })?;
    match head.method {
        Method::POST => Ok(()),
        _ => Err(Failure::Refused(METHOD_NOT_ALLOWED)),
    }
}

const INVALID_CODE: &str =
    "The sign-in code has expired or was used before. `sunaba link` prints a new link.";
const OTHER_ORIGIN: Refusal = Refusal {
    code: ProblemCode::OriginNotAllowed,
    detail: "Only the console of this control plane can use this route.",
};
const METHOD_NOT_ALLOWED: Refusal =
    Refusal { code: ProblemCode::MethodNotAllowed, detail: "This path supports POST only." };

/// The access log, as of other routes. Codes and tokens are in bodies and headers, which are never logged.
fn log(head: &Parts, status: StatusCode, request_id: &str, operator: Option<&str>) {
    let source = head.extensions.get::<SourceIp>();
    let ip = source.map(|SourceIp(ip)| tracing::field::display(ip));
    let (method, path, status) = (&head.method, head.uri.path(), status.as_u16());
    let result = if status >= 400 { " was refused" } else { "" };
    tracing::info!(
        status,
        principal.kind = operator.map(|_| "operator"),
        principal.id = operator,
        source.ip = ip,
        request.id = request_id,
        "{method} {path}{result}: {status}"
    );
}
