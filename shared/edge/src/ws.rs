//! Sockets. Answers to frames go out through the management API, as everything else does: on API Gateway there
//! is no other way, and so there is one way.

use crate::auth::{AuthError, Identity, bearer};
use crate::plane::Plane;
use crate::problem;
use crate::registry::canonical;
use app::{Error, sockets};
use bytes::Bytes;
use contract::query::{Query, unescape};
use contract::socket::{self, ClientFrame, Subscribe};
use domain::access::{Scope, permit};
use domain::filter::FilterChange;
use domain::{ConnectionId, SandboxId};
use http::{HeaderMap, Response};
use store::connections::Connection;
use store::push::Pushed;

/// A socket that wants to open.
#[derive(Debug)]
pub struct Opening {
    /// The host's name for it.
    pub connection: ConnectionId,
    /// The path.
    pub path: String,
    /// What stands behind the `?`.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
}

/// What a host does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Leave the socket open.
    Continue,
    /// The socket has been asked to close.
    Close,
}

/// Where sockets are: every event, or one sandbox's.
pub fn is_socket_path(path: &str) -> bool {
    canonical(path) == "/api/v1/ws/events" || sandbox_in(path).is_some()
}

/// Opens a socket, or answers why not. With a token in the query or a header it is subscribed when this
/// returns; without one it must say who it is in its first frame.
pub async fn connect(plane: &Plane, opening: Opening) -> Result<Connection, Response<Bytes>> {
    let request_id = crate::http::request_id(&opening.headers, plane.ids.as_ref());
    if let Err(stranger) = plane.settings.guard.check(&opening.headers) {
        return Err(crate::http::strange(stranger).response(&request_id));
    }
    if !is_socket_path(&opening.path) {
        return Err(crate::http::NO_PATH.response(&request_id));
    }
    let path = opening.path.clone();
    open(plane, opening).await.map_err(|error| {
        let status = problem::status_of(&error).0.as_u16();
        tracing::info!(request.id = %request_id, status, "Socket {path} was refused: {status}");
        problem::response(&error, &request_id)
    })
}

async fn open(plane: &Plane, opening: Opening) -> Result<Connection, Error> {
    let query = opening.query;
    let token = query.get("token").filter(|token| !token.is_empty()).or_else(|| bearer(&opening.headers));
    let principal = match plane.authenticator.authenticate(token).await {
        Ok(identity) => Some(admitted(identity)?),
        Err(AuthError::Missing) => None,
        Err(error) => return Err(error.into_app()),
    };
    let command = sockets::open::Command {
        connection: opening.connection,
        principal: principal.map(|identity| (identity.principal, identity.until)),
        sandbox: sandbox_in(&opening.path).map(|id| SandboxId::parse(unescape(&id))).transpose()?,
        wish: Subscribe {
            filters: FilterChange {
                event_types: query.list_if_present("event_types"),
                entity_types: query.list_if_present("entity_types"),
                entity_ids: query.list_if_present("entity_ids"),
            },
            batch: query.word("batch", &["true", "false"])?.map(|word| word == "true"),
        },
    };
    let deps = sockets::open::Deps {
        store: &plane.store,
        jobs: plane.jobs()?,
        clock: plane.clock.as_ref(),
        known_within: plane.settings.known_within,
    };
    sockets::open::run(deps, command).await
}

/// A frame from a client. Whatever is wrong with it is told to the client; only a wrong token closes.
pub async fn frame(plane: &Plane, connection: &ConnectionId, text: &str) -> Result<Next, Error> {
    let push = plane.push()?;
    let (frames, next) = match answer(plane, connection, text).await {
        Ok(frames) => (frames, Next::Continue),
        Err(NotDone { frame, next }) => (vec![frame], next),
    };
    for frame in frames {
        if let Pushed::Failed(why) = push.send(connection, &frame).await {
            tracing::warn!(connection.id = %connection, "Socket {connection} could not be answered: {why}");
        }
    }
    if next == Next::Close {
        push.close(connection).await;
    }
    Ok(next)
}

struct NotDone {
    frame: String,
    next: Next,
}

async fn answer(plane: &Plane, id: &ConnectionId, text: &str) -> Result<Vec<String>, NotDone> {
    let frame = ClientFrame::decode(text)
        .map_err(|bad| NotDone { frame: socket::error(bad.code, &bad.error), next: Next::Continue })?;
    match frame {
        ClientFrame::Ping => Ok(vec![socket::pong()]),
        ClientFrame::Pong => Ok(Vec::new()),
        ClientFrame::Auth { token } => {
            let identity = plane.authenticator.authenticate(Some(&token)).await.map_err(AuthError::into_app);
            let identity = identity.and_then(admitted).map_err(|error| told(id, &error, Next::Close))?;
            let principal = Some((identity.principal, identity.until));
            let connection = change(plane, id, principal, Subscribe::default()).await;
            let connection = connection.map_err(|error| told(id, &error, Next::Close))?;
            Ok(vec![socket::authenticated(), socket::subscribed(&connection.filters, connection.batch)])
        }
        ClientFrame::Subscribe(wish) => {
            let connection = change(plane, id, None, wish).await;
            let connection = connection.map_err(|error| told(id, &error, Next::Continue))?;
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
    sockets::subscribe::run(sockets::subscribe::Deps { store: &plane.store }, command).await
}

/// A socket is gone. A repeat does nothing.
pub async fn disconnect(plane: &Plane, connection: &ConnectionId) -> Result<(), Error> {
    let command = sockets::close::Command { connection: connection.clone() };
    sockets::close::run(sockets::close::Deps { store: &plane.store }, command).await
}

fn admitted(identity: Identity) -> Result<Identity, Error> {
    if permit(&identity.principal, Scope::OpenSocket) {
        Ok(identity)
    } else {
        Err(Error::Forbidden("Your token does not allow this."))
    }
}

fn told(id: &ConnectionId, error: &Error, next: Next) -> NotDone {
    problem::log(error, id.as_str());
    NotDone { frame: socket::error(problem::status_of(error).1, &error.to_string()), next }
}

/// `/api/v1/sandbox/{id}/ws`, in either spelling.
fn sandbox_in(path: &str) -> Option<String> {
    let path = canonical(path);
    let id = path.strip_prefix("/api/v1/sandboxes/")?.strip_suffix("/ws")?;
    (!id.is_empty() && !id.contains('/')).then(|| id.to_owned())
}
