//! Requests. Each handler has five steps: path, authorise, decode, one use case, encode; the first two are the
//! same for all and stand here.

pub mod events;
pub mod messages;
pub mod monitoring;
pub mod sandboxes;
pub mod sessions;
pub mod tasks;
pub mod tickets;

use crate::auth::{AuthError, bearer};
use crate::guard::GuardError;
use crate::plane::Plane;
use crate::problem::{self, Refusal};
use crate::registry::{Function, Match, NoMatch, resolve};
use app::{Error, IdSource};
use bytes::Bytes;
use contract::BadInput;
use contract::limits::MAX_BODY_BYTES;
use contract::query::{Query, unescape};
use domain::access::{Principal, Scope, permit};
use domain::{Invalid, SandboxId};
use futures_util::FutureExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderName, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::panic::AssertUnwindSafe;
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

/// Answers any request: for a host that has the whole of it.
pub async fn dispatch(plane: &Arc<Plane>, request: Request<Bytes>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    match admit(plane, &head).await {
        Ok(admitted) => admitted.answer(body).await,
        Err(refusal) => refusal,
    }
}

/// Answers a request that belongs to one function: for a host that runs each on its own. Another's is not answered,
/// whatever may be reached from here.
pub async fn answer_as(
    function: &'static Function,
    plane: &Arc<Plane>,
    request: Request<Bytes>,
) -> Response<Bytes> {
    let found = resolve(request.method(), request.uri().path());
    if found.is_ok_and(|found| found.function.name != function.name) {
        let context = Context::of(plane, &request.into_parts().0);
        return context.finish(NO_PATH.response(&context.request_id));
    }
    dispatch(plane, request).await
}

/// A request that may be answered once its body is there.
pub struct Admitted {
    handler: Handler,
    call: Call,
    context: Context,
}

/// Looks at everything but the body: place, route, and who is asking. A host that reads bodies itself reads only
/// those of requests that were admitted.
pub async fn admit(plane: &Arc<Plane>, head: &Parts) -> Result<Admitted, Response<Bytes>> {
    let context = Context::of(plane, head);
    match route(plane, head, &context).await {
        Ok((handler, call)) => Ok(Admitted { handler, call, context }),
        Err(refusal) => Err(context.finish(refusal)),
    }
}

impl Admitted {
    /// Answers it.
    pub async fn answer(mut self, body: Bytes) -> Response<Bytes> {
        if body.len() > MAX_BODY_BYTES {
            return self.too_large();
        }
        self.call.body = body;
        // A mistake of ours in one request must not look like a broken network to its sender.
        let outcome = AssertUnwindSafe((self.handler)(self.call)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(Error::Internal("the handler panicked".into())));
        let response = outcome.unwrap_or_else(|error| problem::response(&error, &self.context.request_id));
        self.context.finish(response)
    }

    /// Answers it when its body is too large to be read.
    pub fn too_large(self) -> Response<Bytes> {
        let limit =
            BadInput::TooLarge(Invalid::new("body", format!("must be at most {MAX_BODY_BYTES} bytes")));
        self.context.finish(problem::response(&limit.into(), &self.context.request_id))
    }

    /// Answers it when its body does not come, or not whole: the sender may try again.
    pub fn broken_off(self) -> Response<Bytes> {
        self.context.finish(BROKEN_OFF.response(&self.context.request_id))
    }
}

/// What every answer needs, whatever it says.
struct Context {
    request_id: String,
    method: Method,
    path: String,
    cors_origin: Option<HeaderValue>,
}

impl Context {
    fn of(plane: &Plane, head: &Parts) -> Self {
        let origin = plane.settings.guard.cors_origin(&head.headers);
        Self {
            request_id: request_id(&head.headers, plane.ids.as_ref()),
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            cors_origin: origin.and_then(|origin| HeaderValue::from_str(origin).ok()),
        }
    }

    fn finish(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if let Some(origin) = &self.cors_origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            let exposed = HeaderValue::from_static("X-Request-ID, Retry-After");
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
        let Self { request_id, method, path, .. } = self;
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
}

async fn route(
    plane: &Arc<Plane>,
    head: &Parts,
    context: &Context,
) -> Result<(Handler, Call), Response<Bytes>> {
    if context.method == Method::OPTIONS && context.cors_origin.is_some() {
        return Err(preflight());
    }
    if let Err(stranger) = plane.settings.guard.check(&head.headers) {
        return Err(strange(stranger).response(&context.request_id));
    }
    let found = match resolve(&head.method, head.uri.path()) {
        Ok(found) => found,
        Err(NoMatch::Path) => return Err(NO_PATH.response(&context.request_id)),
        Err(NoMatch::Method) => return Err(NO_METHOD.response(&context.request_id)),
    };
    authorised(plane, found, head).await.map_err(|error| problem::response(&error, &context.request_id))
}

async fn authorised(plane: &Arc<Plane>, found: Match, head: &Parts) -> Result<(Handler, Call), Error> {
    let scope = found.route.scope;
    let principal = match scope {
        Scope::Public => Principal::Anonymous,
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
    let call = Call {
        plane: plane.clone(),
        principal,
        parameters,
        query: Query::parse(head.uri.query().unwrap_or_default()),
        headers: head.headers.clone(),
        body: Bytes::new(),
    };
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
pub fn request_id(headers: &HeaderMap, ids: &dyn IdSource) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    match given {
        Some(id) if (1..=100).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            id.to_owned()
        }
        _ => ids.request(),
    }
}

/// What a request that comes from a strange place is told.
pub fn strange(stranger: GuardError) -> Refusal {
    match stranger {
        GuardError::Host => Refusal {
            status: StatusCode::MISDIRECTED_REQUEST,
            code: "host_not_allowed",
            detail: "This server is not known by that name. Set SUNABA_HOSTS if it should be.",
        },
        GuardError::Origin => Refusal {
            status: StatusCode::FORBIDDEN,
            code: "origin_not_allowed",
            detail: "Pages of that origin may not call this server. Set SUNABA_ORIGINS if they should.",
        },
    }
}

/// There is no such path.
pub(crate) const NO_PATH: Refusal =
    Refusal { status: StatusCode::NOT_FOUND, code: "no_route", detail: "There is nothing at this path." };
const NO_METHOD: Refusal = Refusal {
    status: StatusCode::METHOD_NOT_ALLOWED,
    code: "no_method",
    detail: "This path does not answer to this method.",
};
const BROKEN_OFF: Refusal = Refusal {
    status: StatusCode::REQUEST_TIMEOUT,
    code: "broken_off",
    detail: "The body broke off, or took too long. Send it again.",
};

fn preflight() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, X-Request-ID"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}
