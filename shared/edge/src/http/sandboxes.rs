//! Sandboxes: register, list, read, terminate.

use super::{Call, Handler, json};
use app::{Error, sandboxes};
use bytes::Bytes;
use contract::sandboxes::{Health, LogQuery, Register, Registered, SandboxList, SandboxOut};
use domain::{Invalid, OrgId, Sandbox};
use http::{Response, StatusCode};

/// `GET /api/v1/sandboxes/health`.
pub const HEALTH: Handler = |call| Box::pin(health(call));
/// `GET /api/v1/sandboxes`.
pub const LIST: Handler = |call| Box::pin(list(call));
/// `POST /api/v1/sandboxes`.
pub const REGISTER: Handler = |call| Box::pin(register(call));
/// `GET /api/v1/sandboxes/{id}`.
pub const GET: Handler = |call| Box::pin(get(call));
/// `GET /api/v1/sandboxes/{id}/logs`.
pub const LOGS: Handler = |call| Box::pin(logs(call));
/// `POST /api/v1/sandboxes/{id}/token`.
pub const ROTATE_TOKEN: Handler = |call| Box::pin(rotate(call));
/// `DELETE …/sandboxes/{id}`.
pub const TERMINATE: Handler = |call| Box::pin(terminate(call));

async fn health(call: Call) -> Result<Response<Bytes>, Error> {
    let (status, service) = ("ok".to_owned(), "sandbox-api".to_owned());
    Ok(json(StatusCode::OK, &Health { status, service, timestamp: call.plane.clock.now() }))
}

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let limit = call.query.number("limit", 1..=100)?.unwrap_or(50);
    let command = sandboxes::list::Command {
        org: call.query.get("org").map(OrgId::parse).transpose()?,
        cursor: call.query.get("cursor").map(str::to_owned),
        limit: usize::try_from(limit).unwrap_or(50),
        principal: call.principal,
    };
    let page = sandboxes::list::run(sandboxes::list::Deps { store: &call.plane.store }, command).await?;
    let sandboxes = page.sandboxes.iter().map(SandboxOut::from).collect();
    Ok(json(StatusCode::OK, &SandboxList { sandboxes, next_cursor: page.next_cursor }))
}

async fn register(call: Call) -> Result<Response<Bytes>, Error> {
    let register = Register::decode(&call.body)?;
    let plane = &call.plane;
    let deps = sandboxes::register::Deps {
        store: &plane.store,
        mailboxes: plane.message_deps()?.mailboxes,
        clock: plane.clock.as_ref(),
        ids: plane.ids.as_ref(),
        default_org: &plane.settings.default_org,
    };
    let command = sandboxes::register::Command { principal: call.principal, register };
    let sandbox = sandboxes::register::run(deps, command).await?;
    Ok(json(StatusCode::CREATED, &with_token(plane, &sandbox)))
}

async fn get(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let deps = sandboxes::get::Deps { store: &call.plane.store };
    let sandbox =
        sandboxes::get::run(deps, sandboxes::get::Command { principal: call.principal, sandbox }).await?;
    Ok(json(StatusCode::OK, &SandboxOut::from(&sandbox)))
}

async fn logs(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let query = LogQuery::decode(&call.query)?;
    let deps = sandboxes::worker_log::Deps {
        store: &call.plane.store,
        providers: call.plane.providers()?,
        orchestration: &call.plane.settings.orchestration,
    };
    let command = sandboxes::worker_log::Command { principal: call.principal, sandbox, query };
    Ok(json(StatusCode::OK, &sandboxes::worker_log::run(deps, command).await?))
}

async fn rotate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let deps = sandboxes::rotate_token::Deps { store: &call.plane.store };
    let sandbox = sandboxes::rotate_token::run(
        deps,
        sandboxes::rotate_token::Command { principal: call.principal, sandbox },
    )
    .await?;
    Ok(json(StatusCode::OK, &with_token(&call.plane, &sandbox)))
}

fn with_token(plane: &crate::Plane, sandbox: &Sandbox) -> Registered {
    let expires_at = plane.clock.now().plus_secs(plane.settings.worker_token_secs);
    let worker_token = plane.authenticator.worker_token(&sandbox.id, sandbox.generation, expires_at);
    Registered { sandbox: SandboxOut::from(sandbox), worker_token, expires_at }
}

async fn terminate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let reason = reason(call.query.get("reason").unwrap_or_default())?;
    let deps = sandboxes::terminate::Deps {
        messages: call.plane.message_deps()?,
        orchestration_jobs: call.plane.orchestration_jobs()?,
    };
    let command = sandboxes::terminate::Command { principal: call.principal, sandbox, reason };
    Ok(json(StatusCode::OK, &SandboxOut::from(&sandboxes::terminate::run(deps, command).await?)))
}

fn reason(text: &str) -> Result<String, Error> {
    match text.trim() {
        "" => Ok("terminated by request".into()),
        invalid if invalid.chars().count() > MAX_REASON_CHARS || invalid.chars().any(char::is_control) => {
            let rule =
                format!("must be at most {MAX_REASON_CHARS} characters, none of them control characters");
            Err(Invalid::new("reason", rule).into())
        }
        reason => Ok(reason.to_owned()),
    }
}

/// Maximum length of a termination reason.
const MAX_REASON_CHARS: usize = 200;
