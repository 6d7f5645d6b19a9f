//! WebSockets. Responses to frames go through the management API, like all pushes: API Gateway has no other way.

use crate::auth::{AuthError, Identity, bearer};
use crate::http::SourceIp;
use crate::http::events::EVENT_TYPES;
use crate::plane::Plane;
use crate::problem;
use crate::registry::canonical;
use crate::spans;
use app::{Error, sockets};
use bytes::Bytes;
use contract::query::{Parameter, Query, percent_decode};
use contract::socket::{self, ClientFrame, Subscribe};
use domain::access::{Scope, permit};
use domain::filter::FilterChange;
use domain::message::Sender;
use domain::{ConnectionId, Invalid, SandboxId};
use http::{HeaderMap, Response};
use store::connections::Connection;
use store::push::Pushed;
use tracing::Instrument;

/// A request to open a socket.
#[derive(Debug)]
pub struct Opening {
    pub connection: ConnectionId,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub source: Option<SourceIp>,
}

/// The parameters of a request to open a socket.
pub const PARAMETERS: &[Parameter] = &[TOKEN, EVENT_TYPES, ENTITY_TYPES, ENTITY_IDS, BATCH, SANDBOX];

const TOKEN: Parameter = Parameter::text(
    "token",
    "Authenticates the socket. Without it, and without an `Authorization` header, the first frame must be `auth`.",
);
const ENTITY_TYPES: Parameter = Parameter::list(
    "entity_types",
    "`sandbox`, `task` or `ticket`, comma-separated or repeated. Default: all.",
)
.also(&["entity_type"]);
const ENTITY_IDS: Parameter =
    Parameter::list("entity_ids", "Ids of entities, comma-separated or repeated. Default: all.")
        .also(&["entity_id"]);
const BATCH: Parameter = Parameter::flag("batch", "Whether several events may arrive in one frame.");
/// API Gateway's sockets have no paths.
const SANDBOX: Parameter =
    Parameter::id("sandbox_id", "Only events of this sandbox. On AWS, instead of its path.");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// A close was requested through the management API.
    Close,
}

/// Whether the path is that of a socket: for all events, or for one sandbox.
pub fn is_socket_path(path: &str) -> bool {
    canonical(path) == "/api/v1/ws/events" || sandbox_in(path).is_some()
}

/// Opens a socket, or returns the refusal. With a token in the query or a header the socket is subscribed when this
/// returns; without one its first frame must authenticate it, and nothing is stored before.
pub async fn connect(plane: &Plane, opening: Opening) -> Result<(), Response<Bytes>> {
    let request_id = crate::http::request_id(&opening.headers, plane.ids.as_ref());
    let span = spans::socket(&opening.connection, &request_id);
    admit(plane, opening, &request_id).instrument(span).await
}

async fn admit(plane: &Plane, opening: Opening, request_id: &str) -> Result<(), Response<Bytes>> {
    let guard = &plane.settings.guard;
    if let Err(error) = guard.check(&opening.headers).and_then(|()| guard.check_site(&opening.headers)) {
        return Err(crate::http::guard_refusal(error).response(request_id));
    }
    if !is_socket_path(&opening.path) {
        return Err(crate::http::ROUTE_NOT_FOUND.response(request_id));
    }
    let (id, path) = (opening.connection.clone(), opening.path.clone());
    let ip = opening.source.map(|SourceIp(ip)| tracing::field::display(ip));
    match open(plane, opening).await {
        Ok(caller) => {
            tracing::info!(source.ip = ip, "Socket {id} was opened at {path}");
            if let Some(caller) = caller {
                log_authenticated(&id, &caller);
            }
            Ok(())
        }
        Err(error) => {
            let status = problem::code_of(&error).status();
            tracing::info!(status, source.ip = ip, "Socket {path} was refused: {status}");
            Err(problem::response(&error, request_id))
        }
    }
}

/// The access log of sockets: who receives what the plane sends to a socket.
fn log_authenticated(id: &ConnectionId, caller: &Sender) {
    let Sender { kind, id: caller_id } = caller;
    tracing::info!(
        principal.kind = kind,
        principal.id = caller_id.as_deref(),
        "Socket {id} was authenticated"
    );
}

/// Returns the caller, if the request has a token.
async fn open(plane: &Plane, opening: Opening) -> Result<Option<Sender>, Error> {
    let token = opening.query.get(&TOKEN).filter(|token| !token.is_empty());
    let token = token.or_else(|| bearer(&opening.headers));
    let principal = match plane.authenticator.authenticate(token).await {
        Ok(identity) => Some(authorised(identity)?),
        Err(AuthError::Missing) => None,
        Err(error) => return Err(error.into_app()),
    };
    let caller = principal.as_ref().map(|identity| Sender::of(&identity.principal));
    let query = opening.query.accepting(PARAMETERS)?;
    let command = sockets::open::Command {
        connection: opening.connection,
        principal: principal.map(|identity| (identity.principal, identity.expires_at)),
        sandbox: one_sandbox(
            sandbox_in(&opening.path).map(|id| SandboxId::parse(percent_decode(&id))).transpose()?,
            query.parsed(&SANDBOX, SandboxId::parse)?,
        )?,
        subscribe: Subscribe {
            filters: FilterChange {
                event_types: query.list_if_present(&EVENT_TYPES)?,
                entity_types: query.list_if_present(&ENTITY_TYPES)?,
                entity_ids: query.list_if_present(&ENTITY_IDS)?,
            },
            batch: query.flag(&BATCH)?,
        },
    };
    let deps = sockets::open::Deps {
        store: &plane.store,
        socket_jobs: plane.socket_jobs()?,
        clock: plane.clock.as_ref(),
        auth_timeout: plane.settings.auth_timeout,
    };
    sockets::open::run(deps, command).await.map(|_| caller)
}

/// Handles a frame from a client. Errors are sent to the client; only a failed authentication closes the socket.
pub async fn frame(plane: &Plane, connection: &ConnectionId, text: &str) -> Result<Next, Error> {
    let request_id = plane.ids.request();
    let span = spans::socket(connection, &request_id);
    handle(plane, connection, text, &request_id).instrument(span).await
}

async fn handle(
    plane: &Plane,
    connection: &ConnectionId,
    text: &str,
    request_id: &str,
) -> Result<Next, Error> {
    let push = plane.push()?;
    let (frames, next) = match respond(plane, connection, text, request_id).await {
        Ok(frames) => (frames, Next::Continue),
        Err(Failed { frame, next }) => (vec![frame], next),
    };
    for frame in frames {
        match push.send(connection, &frame).await {
            Pushed::Sent => {}
            // It was closed while this frame was handled. Its end may have been handled before an `auth` frame stored it,
            // and is not announced again.
            Pushed::Gone => {
                forget(plane, connection).await?;
                break;
            }
            Pushed::Failed(reason) => {
                tracing::warn!(connection.id = %connection, "Cannot respond to socket {connection}: {reason}");
            }
        }
    }
    if next == Next::Close {
        push.close(connection).await;
    }
    Ok(next)
}

/// An error frame, and whether the socket stays open.
struct Failed {
    frame: String,
    next: Next,
}

async fn respond(
    plane: &Plane,
    id: &ConnectionId,
    text: &str,
    request_id: &str,
) -> Result<Vec<String>, Failed> {
    let failed = |error: &Error, next| {
        problem::log(error, request_id);
        Failed { frame: socket::error(problem::code_of(error).as_str(), &error.to_string()), next }
    };
    let frame = ClientFrame::decode(text).map_err(|bad| Failed {
        frame: socket::error(bad.code.as_str(), &bad.error),
        next: Next::Continue,
    })?;
    match frame {
        ClientFrame::Ping => Ok(vec![socket::pong()]),
        ClientFrame::Pong => Ok(Vec::new()),
        ClientFrame::Auth { token, subscribe } => {
            let identity = plane.authenticator.authenticate(Some(&token)).await.map_err(AuthError::into_app);
            let identity = identity.and_then(authorised).map_err(|error| failed(&error, Next::Close))?;
            let caller = Sender::of(&identity.principal);
            let principal = Some((identity.principal, identity.expires_at));
            let connection = change(plane, id, principal, subscribe).await;
            // A client that authenticates again too often keeps its subscription.
            let connection = connection.map_err(|error| match error {
                Error::RateLimited { .. } => failed(&error, Next::Continue),
                _ => failed(&error, Next::Close),
            })?;
            log_authenticated(id, &caller);
            Ok(vec![socket::authenticated(), socket::subscribed(&connection.filters, connection.batch)])
        }
        ClientFrame::Subscribe(subscribe) => {
            let connection = change(plane, id, None, subscribe).await;
            let connection = connection.map_err(|error| failed(&error, Next::Continue))?;
            Ok(vec![socket::subscribed(&connection.filters, connection.batch)])
        }
    }
}

async fn change(
    plane: &Plane,
    connection: &ConnectionId,
    principal: Option<(domain::access::Principal, Option<domain::Timestamp>)>,
    change: Subscribe,
) -> Result<Connection, Error> {
    let command = sockets::subscribe::Command { connection: connection.clone(), principal, change };
    let deps = sockets::subscribe::Deps { store: &plane.store, clock: plane.clock.as_ref() };
    sockets::subscribe::run(deps, command).await
}

/// Forgets a closed socket. Idempotent.
pub async fn disconnect(plane: &Plane, connection: &ConnectionId) -> Result<(), Error> {
    forget(plane, connection).instrument(spans::socket(connection, &plane.ids.request())).await
}

async fn forget(plane: &Plane, connection: &ConnectionId) -> Result<(), Error> {
    let command = sockets::close::Command { connection: connection.clone() };
    sockets::close::run(sockets::close::Deps { store: &plane.store }, command).await
}

fn authorised(identity: Identity) -> Result<Identity, Error> {
    if permit(&identity.principal, Scope::OpenSocket) {
        Ok(identity)
    } else {
        Err(Error::Forbidden("Your token does not allow this."))
    }
}

/// The sandbox of the socket, if it is for one: that of the path or that of the query.
fn one_sandbox(of_path: Option<SandboxId>, of_query: Option<SandboxId>) -> Result<Option<SandboxId>, Error> {
    match (of_path, of_query) {
        (Some(of_path), Some(of_query)) if of_path != of_query => {
            Err(Invalid::new(SANDBOX.name, "must be the sandbox of the path").into())
        }
        (of_path, of_query) => Ok(of_path.or(of_query)),
    }
}

/// The id in `/api/v1/sandbox/{id}/ws`, or in its plural alias.
fn sandbox_in(path: &str) -> Option<String> {
    let path = canonical(path);
    let id = path.strip_prefix("/api/v1/sandboxes/")?.strip_suffix("/ws")?;
    (!id.is_empty() && !id.contains('/')).then(|| id.to_owned())
}
