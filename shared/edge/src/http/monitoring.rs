//! Monitoring of sandboxes.

use super::{Call, Handler, json};
use app::{Error, sandboxes};
use bytes::Bytes;
use contract::monitoring::Phase;
use domain::{Invalid, OrgId, SandboxId};
use http::{Response, StatusCode};

/// `GET /api/v1/monitoring/status`.
pub const STATUS: Handler = |call| Box::pin(status(call));
/// `GET /api/v1/sandboxes/{id}/phase-status`.
pub const PHASE: Handler = |call| Box::pin(phase(call));

async fn status(call: Call) -> Result<Response<Bytes>, Error> {
    let cursor = call.query.get("cursor").map(SandboxId::parse).transpose();
    let command = sandboxes::monitor::Command {
        org: call.query.get("org").map(OrgId::parse).transpose()?,
        cursor: cursor
            .map_err(|_| Invalid::new("cursor", "must be the next_cursor of an earlier response"))?,
        principal: call.principal,
    };
    let plane = &call.plane;
    let deps = sandboxes::monitor::Deps {
        store: &plane.store,
        clock: plane.clock.as_ref(),
        thresholds: &plane.settings.orchestration.thresholds,
    };
    Ok(json(StatusCode::OK, &sandboxes::monitor::run(deps, command).await?))
}

async fn phase(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let deps = sandboxes::get::Deps { store: &call.plane.store };
    let sandbox =
        sandboxes::get::run(deps, sandboxes::get::Command { principal: call.principal, sandbox }).await?;
    Ok(json(StatusCode::OK, &Phase::new(&sandbox, call.plane.clock.now())))
}
