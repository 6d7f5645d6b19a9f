//! Sandboxes: register, list, read, terminate.

use super::endpoint::{created, ok};
use super::parameters::{CURSOR, LIMIT, ORG};
use super::{Call, Endpoint, json};
use app::{Error, sandboxes};
use bytes::Bytes;
use contract::ProblemCode::SandboxExists;
use contract::query::Parameter;
use contract::requests::RegisterSandbox;
use contract::sandboxes::{
    Health, LogPage, LogQuery, LogVerification, PreviewLink, Register, Registered, SandboxList, SandboxOut,
    VerificationQuery,
};
use domain::{Invalid, OrgId, Sandbox};
use http::{Response, StatusCode};

/// `GET /api/v1/sandboxes/health`.
pub const HEALTH: Endpoint = Endpoint::new(|call| Box::pin(health(call)), &[ok::<Health>()]);
/// `GET /api/v1/sandboxes`.
pub const LIST: Endpoint =
    Endpoint::new(|call| Box::pin(list(call)), &[ok::<SandboxList>()]).query(&[ORG, CURSOR, LIMIT]);
/// `POST /api/v1/sandboxes`.
pub const REGISTER: Endpoint = Endpoint::new(|call| Box::pin(register(call)), &[created::<Registered>()])
    .optional_body::<RegisterSandbox>()
    .problems(&[SandboxExists]);
/// `GET /api/v1/sandboxes/{id}`.
pub const GET: Endpoint = Endpoint::new(|call| Box::pin(get(call)), &[ok::<SandboxOut>()]);
/// `GET /api/v1/sandboxes/{id}/logs`.
pub const LOGS: Endpoint =
    Endpoint::new(|call| Box::pin(logs(call)), &[ok::<LogPage>()]).query(LogQuery::PARAMETERS);
/// `GET /api/v1/sandboxes/{id}/verification`.
pub const VERIFY: Endpoint = Endpoint::new(|call| Box::pin(verify(call)), &[ok::<LogVerification>()])
    .query(VerificationQuery::PARAMETERS);
/// `GET /api/v1/sandboxes/{id}/previews/{port}`.
pub const PREVIEW: Endpoint = Endpoint::new(|call| Box::pin(preview(call)), &[ok::<PreviewLink>()]);
/// `POST /api/v1/sandboxes/{id}/token`.
pub const ROTATE_TOKEN: Endpoint = Endpoint::new(|call| Box::pin(rotate(call)), &[ok::<Registered>()]);
/// `DELETE …/sandboxes/{id}`.
pub const TERMINATE: Endpoint =
    Endpoint::new(|call| Box::pin(terminate(call)), &[ok::<SandboxOut>()]).query(&[REASON]);

const REASON: Parameter =
    Parameter::text("reason", "Why, in one line; becomes part of the log.").up_to_chars(MAX_REASON_CHARS);

async fn health(call: Call) -> Result<Response<Bytes>, Error> {
    let (status, service) = ("ok".to_owned(), "sandbox-api".to_owned());
    Ok(json(StatusCode::OK, &Health { status, service, timestamp: call.plane.clock.now() }))
}

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let command = sandboxes::list::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
        cursor: call.query.get(&CURSOR).map(str::to_owned),
        limit: call.query.size(&LIMIT)?,
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
    Ok(json(StatusCode::CREATED, &with_token(plane, &sandbox)?))
}

async fn get(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let deps = sandboxes::get::Deps { store: &call.plane.store, clock: call.plane.clock.as_ref() };
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

async fn verify(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let query = VerificationQuery::decode(&call.query)?;
    let deps = sandboxes::verify::Deps { store: &call.plane.store };
    let command = sandboxes::verify::Command { principal: call.principal, sandbox, query };
    Ok(json(StatusCode::OK, &sandboxes::verify::run(deps, command).await?))
}

async fn preview(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let port = call.parameters.get(1).and_then(|port| port.parse().ok()).filter(|port| *port > 0);
    let port: u16 = port.ok_or_else(|| Invalid::new("port", "must be a number from 1 to 65535"))?;
    let deps = sandboxes::preview::Deps { store: &call.plane.store, providers: call.plane.providers()? };
    let command = sandboxes::preview::Command { principal: call.principal, sandbox, port };
    Ok(json(StatusCode::OK, &sandboxes::preview::run(deps, command).await?))
}

async fn rotate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let plane = &call.plane;
    let deps = sandboxes::rotate_token::Deps {
        store: &plane.store,
        locks: &plane.locks,
        clock: plane.clock.as_ref(),
        ids: plane.ids.as_ref(),
    };
    let sandbox = sandboxes::rotate_token::run(
        deps,
        sandboxes::rotate_token::Command { principal: call.principal, sandbox },
    )
    .await?;
    Ok(json(StatusCode::OK, &with_token(plane, &sandbox)?))
}

fn with_token(plane: &crate::Plane, sandbox: &Sandbox) -> Result<Registered, Error> {
    let expires_at = plane.clock.now().plus_secs(plane.settings.worker_token_secs);
    let worker_token = plane.authenticator.worker_token(&sandbox.id, sandbox.generation, expires_at)?;
    Ok(Registered { sandbox: SandboxOut::from(sandbox), worker_token, expires_at })
}

async fn terminate(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let reason = reason(call.query.get(&REASON).unwrap_or_default())?;
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
