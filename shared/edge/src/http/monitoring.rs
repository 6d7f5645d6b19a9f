//! Monitoring of sandboxes.

use super::endpoint::ok;
use super::parameters::ORG;
use super::{Call, Endpoint, json};
use app::{Error, sandboxes};
use bytes::Bytes;
use contract::monitoring::{Monitoring, Phase};
use contract::query::Parameter;
use domain::{Invalid, OrgId, SandboxId};
use http::{Response, StatusCode};

/// `GET /api/v1/monitoring/status`.
pub const STATUS: Endpoint =
    Endpoint::new(|call| Box::pin(status(call)), &[ok::<Monitoring>()]).query(&[ORG, CURSOR]);
/// `GET /api/v1/sandboxes/{id}/phase-status`.
pub const PHASE: Endpoint = Endpoint::new(|call| Box::pin(phase(call)), &[ok::<Phase>()]);

const CURSOR: Parameter = Parameter::id("cursor", "`next_cursor` of the previous page, for the next one.");

async fn status(call: Call) -> Result<Response<Bytes>, Error> {
    let cursor = call.query.parsed(&CURSOR, SandboxId::parse);
    let command = sandboxes::monitor::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
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
    let deps = sandboxes::get::Deps { store: &call.plane.store, clock: call.plane.clock.as_ref() };
    let sandbox =
        sandboxes::get::run(deps, sandboxes::get::Command { principal: call.principal, sandbox }).await?;
    Ok(json(StatusCode::OK, &Phase::new(&sandbox, call.plane.clock.now())))
}
