//! Webhooks of code hosts.

use super::endpoint::empty;
use super::{Call, Endpoint};
use crate::auth::webhooks::{Signer, signer};
use app::webhooks::{self, GITHUB_SECRET};
use app::{Clock, Error};
use bytes::Bytes;
use contract::query::Parameter;
use contract::webhooks::{MAX_DELIVERY_CHARS, decode};
use domain::{Invalid, JsonObject};
use http::{Response, StatusCode};

/// `POST /api/v1/webhooks/github`.
pub const GITHUB: Endpoint = Endpoint::new(|call| Box::pin(github(call)), &[empty(202)])
    .headers(&[EVENT, DELIVERY, SIGNATURE])
    .body::<JsonObject>();

const EVENT: Parameter =
    Parameter::text("X-GitHub-Event", "What happened. Unknown events are accepted and change nothing.");
const DELIVERY: Parameter =
    Parameter::text("X-GitHub-Delivery", "Identifies the webhook: a repeated one changes nothing.")
        .up_to_chars(MAX_DELIVERY_CHARS);
const SIGNATURE: Parameter = Parameter::text(
    "X-Hub-Signature-256",
    "HMAC with SHA-256 of the body, with the secret GITHUB_WEBHOOK_SECRET: `sha256=` and hexadecimal digits.",
);

/// The name of the code host.
const SENDER: &str = "github";

async fn github(call: Call) -> Result<Response<Bytes>, Error> {
    let Signer { org } = authorise(&call)?;
    let changed = decode(&header(&call, EVENT.name), &call.body)?;
    let delivery = header(&call, DELIVERY.name);
    if !(1..=MAX_DELIVERY_CHARS).contains(&delivery.len()) {
        let reason = format!("must be 1 to {MAX_DELIVERY_CHARS} visible ASCII characters");
        return Err(Invalid::new(DELIVERY.name, reason).into());
    }
    let plane = &call.plane;
    let clock: &dyn Clock = plane.clock.as_ref();
    let deps = webhooks::Deps { store: &plane.store, orchestration_jobs: plane.orchestration_jobs()?, clock };
    webhooks::run(deps, webhooks::Command { sender: SENDER, delivery, org, changed }).await?;
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// The signature is over the body as it was sent, so it is checked before the body is read.
fn authorise(call: &Call) -> Result<Signer, Error> {
    let secrets = call.plane.settings.orchestration.worker_variables.values(GITHUB_SECRET);
    if secrets.is_empty() {
        return Err(Error::Unauthorized(
            "This plane has no GITHUB_WEBHOOK_SECRET, so it accepts no webhooks of GitHub.",
        ));
    }
    signer(&secrets, &call.body, &header(call, SIGNATURE.name))
        .ok_or(Error::Unauthorized("X-Hub-Signature-256 is not the signature of this body."))
}

/// Empty if it is absent or not visible ASCII.
fn header(call: &Call, name: &str) -> String {
    call.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
