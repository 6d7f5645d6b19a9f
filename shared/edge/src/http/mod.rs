//! Requests. Each handler has five steps: path, authorise, decode, one use case, encode; the first two are the
//! same for all and stand here.

pub mod events;
pub mod sandboxes;

use crate::auth::{AuthError, bearer};
use crate::guard::Stranger;
use crate::plane::Plane;
use crate::problem::{self, Refusal};
use crate::registry::{Function, Match, NoMatch, resolve};
use app::Error;
use bytes::Bytes;
use contract::limits::MAX_BODY_BYTES;
use contract::query::{Query, unescape};
use domain::SandboxId;
use domain::access::{Principal, Scope, permit};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderName, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::pin::Pin;
use std::sync::Arc;

/// A request that may be answered: its route is known, and who is asking.
#[derive(Debug)]
pub struct Call {
    /// What may be reached.
    pub plane: Arc<Plane>,
    /// Who is asking.
    pub principal: Principal,
    /// What stands in place of the path's parameters.
    pub parameters: Vec<String>,
    /// What stands behind the `?`.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What a handler answers with.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Error>> + Send>>;
/// What answers a call.
pub type Handler = fn(Call) -> Answer;

/// Echoed, or made up.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers any request: for a host that serves all routes.
pub async fn dispatch(plane: &Arc<Plane>, request: Request<Bytes>) -> Response<Bytes> {
    answer(plane, request, resolve).await
}

/// Answers a request to one function: for a host that serves one route.
pub async fn call(
    function: &'static Function,
    plane: &Arc<Plane>,
    request: Request<Bytes>,
) -> Response<Bytes> {
    answer(plane, request, |method, path| {
        resolve(method, path).and_then(|found| {
            if found.function.name == function.name { Ok(found) } else { Err(NoMatch::Path) }
        })
    })
    .await
}

async fn answer(
    plane: &Arc<Plane>,
    request: Request<Bytes>,
    find: impl Fn(&Method, &str) -> Result<Match, NoMatch>,
) -> Response<Bytes> {
    let request_id = request_id(request.headers());
    let cors = plane.settings.guard.cors_origin(request.headers()).map(str::to_owned);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = if method == Method::OPTIONS && cors.is_some() {
        preflight()
    } else {
        route(plane, request, &request_id, find).await
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(&request_id).unwrap_or(HeaderValue::from_static("-")));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(Ok(origin)) = cors.map(|origin| HeaderValue::from_str(&origin)) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
    let status = response.status().as_u16();
    // Paths carry ids and no secrets; queries may carry tokens and are never logged.
    match status {
        400..=499 => {
            tracing::info!(request.id = %request_id, status, "{method} {path} was refused: {status}");
        }
        _ => tracing::debug!(request.id = %request_id, status, "{method} {path}: {status}"),
    }
    response
}

async fn route(
    plane: &Arc<Plane>,
    request: Request<Bytes>,
    request_id: &str,
    find: impl Fn(&Method, &str) -> Result<Match, NoMatch>,
) -> Response<Bytes> {
    if let Err(stranger) = plane.settings.guard.check(request.headers()) {
        return strange(stranger).response(request_id);
    }
    let found = match find(request.method(), request.uri().path()) {
        Ok(found) => found,
        Err(NoMatch::Path) => return NO_PATH.response(request_id),
        Err(NoMatch::Method) => return NO_METHOD.response(request_id),
    };
    if request.body().len() > MAX_BODY_BYTES {
        return TOO_LARGE.response(request_id);
    }
    match authorised(plane, found, request).await {
        Ok((handler, call)) => match handler(call).await {
            Ok(response) => response,
            Err(error) => problem::response(&error, request_id),
        },
        Err(error) => problem::response(&error, request_id),
    }
}

async fn authorised(
    plane: &Arc<Plane>,
    found: Match,
    request: Request<Bytes>,
) -> Result<(Handler, Call), Error> {
    let (head, body) = request.into_parts();
    let scope = found.function.scope;
    let principal = match scope {
        Scope::Public => Principal::Nobody,
        _ => {
            plane
                .authenticator
                .authenticate(bearer(&head.headers))
                .await
                .map_err(AuthError::into_app)?
                .principal
        }
    };
    let parameters: Vec<String> = found.parameters.iter().map(|parameter| unescape(parameter)).collect();
    authorise(&principal, scope, found.route.path, &parameters)?;
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let call = Call { plane: plane.clone(), principal, parameters, query, headers: head.headers, body };
    Ok((found.route.handler, call))
}

/// May they do this at all, and is a worker talking of its own sandbox? Whose sandbox it is otherwise, the use
/// case sees on the head.
fn authorise(principal: &Principal, scope: Scope, path: &str, parameters: &[String]) -> Result<(), Error> {
    if !permit(principal, scope) {
        return Err(Error::Forbidden("Your token does not allow this."));
    }
    if let Principal::Worker { sandbox, .. } = principal
        && path.contains("{id}")
        && parameters.first().map(String::as_str) != Some(sandbox.as_str())
    {
        return Err(Error::Forbidden("This worker token is for another sandbox."));
    }
    Ok(())
}

impl Call {
    /// The sandbox in the path.
    pub fn sandbox(&self) -> Result<SandboxId, Error> {
        Ok(SandboxId::parse(self.parameters.first().cloned().unwrap_or_default())?)
    }
}

/// 200 (or another status) with JSON.
pub fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(value).expect("our own answers serialise");
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The caller's request id if it is a sane one, else ours.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    match given {
        Some(id) if (1..=100).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            id.to_owned()
        }
        _ => app::ids::request(),
    }
}

/// What a request that comes from a strange place is told.
pub fn strange(stranger: Stranger) -> Refusal {
    match stranger {
        Stranger::Host => Refusal {
            status: StatusCode::MISDIRECTED_REQUEST,
            code: "strange_host",
            detail: "This server is not known by that name. Set SUNABA_HOSTS if it should be.",
        },
        Stranger::Origin => Refusal {
            status: StatusCode::FORBIDDEN,
            code: "strange_origin",
            detail: "Pages of that origin may not call this server. Set SUNABA_ORIGINS if they should.",
        },
    }
}

const NO_PATH: Refusal =
    Refusal { status: StatusCode::NOT_FOUND, code: "no_route", detail: "There is nothing at this path." };
const NO_METHOD: Refusal = Refusal {
    status: StatusCode::METHOD_NOT_ALLOWED,
    code: "no_method",
    detail: "This path does not answer to this method.",
};
/// What a host answers when it stops reading a body.
pub const TOO_LARGE: Refusal = Refusal {
    status: StatusCode::PAYLOAD_TOO_LARGE,
    code: "too_large",
    detail: "body: must be at most 4194304 bytes.",
};

fn preflight() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, X-Request-ID"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}
