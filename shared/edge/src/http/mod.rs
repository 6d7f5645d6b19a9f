//! HTTP requests. Each handler has five steps: path, authorise, decode, one use case, encode. The first two are the same
//! for all and are here.

pub mod api;
pub mod branch_workflow;
pub mod branches;
mod endpoint;
pub mod events;
pub mod messages;
pub mod monitoring;
mod parameters;
pub mod repositories;
pub mod sandboxes;
pub mod sessions;
pub mod tasks;
pub mod tickets;
pub mod webhooks;
pub mod workspaces;

pub use endpoint::{Content, Endpoint, EndpointResponse, RequestBody, SchemaOf};

use crate::auth::{AuthError, bearer};
use crate::guard::GuardError;
use crate::plane::Plane;
use crate::problem::{self, Refusal};
use crate::registry::{Function, Match, NoMatch, Route, methods, resolve};
use crate::spans;
use app::quotas;
use app::{Error, IdSource};
use bytes::Bytes;
use contract::BadInput;
use contract::ProblemCode;
use contract::query::{Query, percent_decode};
use domain::access::{Principal, Scope, permit};
use domain::message::Sender;
use domain::quota::{Amount, QuotaOwner};
use domain::{Invalid, SandboxId};
use futures_util::FutureExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName,
    VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use tracing::{Instrument, Span};

/// An authorised request.
#[derive(Debug)]
pub struct Call {
    pub plane: Arc<Plane>,
    pub principal: Principal,
    /// Values of the path's parameters, in order.
    pub parameters: Vec<String>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Error>> + Send>>;
pub type Handler = fn(Call) -> HandlerFuture;

/// Echoed in the response, or generated.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Handles any request whose body is complete.
pub async fn dispatch(plane: &Arc<Plane>, request: Request<Bytes>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    match admit(plane, &head).await {
        Ok(admitted) => admitted.answer(body).await,
        Err(refusal) => refusal,
    }
}

/// Handles a request in a process that serves one function. A request for another function's route is 404, whatever
/// permissions this process has.
pub async fn dispatch_to(
    function: &'static Function,
    plane: &Arc<Plane>,
    request: Request<Bytes>,
) -> Response<Bytes> {
    let resolved = resolve(request.method(), request.uri().path());
    if resolved.is_ok_and(|matched| matched.function.name != function.name) {
        let context = Context::of(plane, &request.into_parts().0);
        return context.finish(ROUTE_NOT_FOUND.response(&context.request_id));
    }
    dispatch(plane, request).await
}

/// A request that is authorised and waits for its body.
pub struct Admitted {
    route: &'static Route,
    call: Call,
    context: Context,
}

/// Checks everything but the body: host, origin, route and authorisation. A host that reads bodies itself reads only those
/// of admitted requests.
pub async fn admit(plane: &Arc<Plane>, head: &Parts) -> Result<Admitted, Response<Bytes>> {
    let context = Context::of(plane, head);
    match route(plane, head, &context).instrument(context.span.clone()).await {
        Ok((route, call)) => Ok(Admitted { route, call, context }),
        Err(refusal) => Err(context.finish(refusal)),
    }
}

impl Admitted {
    pub async fn answer(self, body: Bytes) -> Response<Bytes> {
        let span = self.context.span.clone();
        self.run_handler(body).instrument(span).await
    }

    async fn run_handler(mut self, body: Bytes) -> Response<Bytes> {
        if body.len() > self.max_body_bytes() {
            return self.too_large();
        }
        self.call.body = body;
        // A panic becomes a 500, so that the client does not see a network failure.
        let outcome = AssertUnwindSafe(handle(self.route, self.call)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(Error::Internal("the handler panicked".into())));
        let response = outcome.unwrap_or_else(|error| problem::response(&error, &self.context.request_id));
        self.context.finish(response)
    }

    pub fn max_body_bytes(&self) -> usize {
        self.route.max_body_bytes
    }

    /// The response if the body exceeds the limit.
    pub fn too_large(self) -> Response<Bytes> {
        let reason = format!("must be at most {} bytes", self.max_body_bytes());
        let limit = BadInput::TooLarge(Invalid::new("body", reason));
        self.context.finish(problem::response(&limit.into(), &self.context.request_id))
    }

    /// The response if the body is incomplete or too slow. The client may retry.
    pub fn request_timeout(self) -> Response<Bytes> {
        self.context.finish(REQUEST_TIMEOUT.response(&self.context.request_id))
    }
}

async fn handle(route: &Route, call: Call) -> Result<Response<Bytes>, Error> {
    let outcome = match count_write(route, &call).await {
        Ok(()) => (route.endpoint.handler)(call).await,
        Err(refused) => Err(refused),
    };
    // Tests run in debug builds, so the document has every response that occurs in a test.
    match &outcome {
        Ok(response) => debug_assert!(
            route.endpoint.responses.iter().any(|declared| declared.status == response.status().as_u16()),
            "{} {} responds with {} without declaring it",
            route.method,
            route.path,
            response.status()
        ),
        Err(error) => debug_assert!(
            route.problems().contains(&problem::code_of(error)),
            "{} {} responds with {} without declaring it",
            route.method,
            route.path,
            problem::code_of(error).as_str()
        ),
    }
    outcome
}

/// Counts a change for the quotas of its caller, unless the use case does.
async fn count_write(route: &Route, call: &Call) -> Result<(), Error> {
    if !route.is_change() || route.endpoint.counts_its_writes {
        return Ok(());
    }
    let cost = Amount::new(1, call.body.len() as u64);
    quotas::charge(call.plane.quota_deps(), &QuotaOwner::of(&call.principal), cost).await
}

/// The address of a request's sender, as the host sees it. A host adds it to the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct SourceIp(pub IpAddr);

/// What every response needs.
struct Context {
    span: Span,
    request_id: String,
    method: Method,
    path: String,
    source: Option<SourceIp>,
    /// The caller, as soon as it is authenticated.
    caller: OnceLock<Sender>,
    cors_origin: Option<HeaderValue>,
}

impl Context {
    fn of(plane: &Plane, head: &Parts) -> Self {
        let origin = plane.settings.guard.cors_origin(&head.headers);
        let request_id = request_id(&head.headers, plane.ids.as_ref());
        Self {
            span: spans::request(&request_id),
            request_id,
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            source: head.extensions.get::<SourceIp>().copied(),
            caller: OnceLock::new(),
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
        self.log(response.status().as_u16());
        response
    }

    /// The access log: who requested what from where, with which result. Paths contain ids but no secrets. Queries may
    /// contain tokens and are never logged.
    fn log(&self, status: u16) {
        let Self { method, path, .. } = self;
        let caller = self.caller.get();
        let (kind, id) =
            (caller.map(|caller| caller.kind.as_str()), caller.and_then(|caller| caller.id.as_deref()));
        let ip = self.source.map(|SourceIp(ip)| tracing::field::display(ip));
        let _in_span = self.span.enter();
        // What workers send is in the logs of their sandboxes, thousands of lines per second.
        let is_change = !matches!(*method, Method::GET | Method::HEAD) && kind != Some("worker");
        match status {
            400..=499 => {
                tracing::info!(
                    status,
                    principal.kind = kind,
                    principal.id = id,
                    source.ip = ip,
                    "{method} {path} was refused: {status}"
                );
            }
            _ if is_change && caller.is_some() => {
                tracing::info!(
                    status,
                    principal.kind = kind,
                    principal.id = id,
                    source.ip = ip,
                    "{method} {path}: {status}"
                );
            }
            _ => {
                tracing::debug!(
                    status,
                    principal.kind = kind,
                    principal.id = id,
                    source.ip = ip,
                    "{method} {path}: {status}"
                );
            }
        }
    }
}

async fn route(
    plane: &Arc<Plane>,
    head: &Parts,
    context: &Context,
) -> Result<(&'static Route, Call), Response<Bytes>> {
    if context.method == Method::OPTIONS && context.cors_origin.is_some() {
        return Err(preflight());
    }
    if let Err(error) = plane.settings.guard.check(&head.headers) {
        return Err(guard_refusal(error).response(&context.request_id));
    }
    let matched = match resolve(&head.method, head.uri.path()) {
        Ok(matched) => matched,
        Err(NoMatch::Path) => return Err(ROUTE_NOT_FOUND.response(&context.request_id)),
        Err(NoMatch::Method) => return Err(method_not_allowed(head.uri.path(), &context.request_id)),
    };
    // Links on other sites may lead to the public documents, which have no side effects.
    if matched.route.scope != Scope::Public
        && let Err(error) = plane.settings.guard.check_site(&head.headers)
    {
        return Err(guard_refusal(error).response(&context.request_id));
    }
    authenticate(plane, matched, head, context)
        .await
        .map_err(|error| problem::response(&error, &context.request_id))
}

/// With the methods that the path supports.
fn method_not_allowed(path: &str, request_id: &str) -> Response<Bytes> {
    let mut response = METHOD_NOT_ALLOWED.response(request_id);
    let methods: Vec<&str> = methods(path).into_iter().map(Method::as_str).collect();
    if let Ok(methods) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

async fn authenticate(
    plane: &Arc<Plane>,
    matched: Match,
    head: &Parts,
    context: &Context,
) -> Result<(&'static Route, Call), Error> {
    let scope = matched.route.scope;
    let principal = match scope.needs_token() {
        false => Principal::Anonymous,
        true => {
            plane
                .authenticator
                .authenticate(bearer(&head.headers))
                .await
                .map_err(AuthError::into_app)?
                .principal
        }
    };
    if scope.needs_token() {
        // Set once per request.
        let _first = context.caller.set(Sender::of(&principal));
    }
    let parameters: Vec<String> =
        matched.parameters.iter().map(|parameter| percent_decode(parameter)).collect();
    authorise(&principal, scope, matched.route.path, &parameters)?;
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let call = Call {
        plane: plane.clone(),
        principal,
        parameters,
        query: query.accepting(matched.route.endpoint.query)?,
        headers: head.headers.clone(),
        body: Bytes::new(),
    };
    Ok((matched.route, call))
}

/// Checks the scope, and that a worker accesses only its own sandbox. The use case checks which org the sandbox belongs to.
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
    let body = serde_json::to_vec(value).expect("our own responses serialize");
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The client's request id if it is valid, else a new one.
pub fn request_id(headers: &HeaderMap, ids: &dyn IdSource) -> String {
    let received = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    match received {
        Some(id) if (1..=100).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            id.to_owned()
        }
        _ => ids.request(),
    }
}

/// The response to a request that [`crate::guard::Guard`] rejects.
pub fn guard_refusal(error: GuardError) -> Refusal {
    match error {
        GuardError::Host => Refusal {
            code: ProblemCode::HostNotAllowed,
            detail: "This host name is not allowed. Add it to SUNABA_HOSTS to allow it.",
        },
        GuardError::Origin => Refusal {
            code: ProblemCode::OriginNotAllowed,
            detail: "This origin is not allowed. Add it to SUNABA_ORIGINS to allow it.",
        },
    }
}

pub(crate) const ROUTE_NOT_FOUND: Refusal =
    Refusal { code: ProblemCode::RouteNotFound, detail: "No route matches this path." };
const METHOD_NOT_ALLOWED: Refusal =
    Refusal { code: ProblemCode::MethodNotAllowed, detail: "This path does not support this method." };
/// The response if a body is incomplete or too slow.
pub const REQUEST_TIMEOUT: Refusal = Refusal {
    code: ProblemCode::RequestTimeout,
    detail: "The request body was incomplete or took too long. Send the request again.",
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
