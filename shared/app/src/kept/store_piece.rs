//! Stores a piece of a file of the workspace. It is of no use before [`super::keep`] names the file.

use super::assignment_of;
use crate::error::Error;
use crate::{quotas, visibility};
use contract::workspaces::{Piece, PieceStored};
use domain::SandboxId;
use domain::access::Principal;
use domain::quota::{Amount, QuotaOwner};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub quotas: quotas::Deps<'a>,
    /// For how long work is kept.
    pub keep_days: u32,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub piece: Piece,
    /// Size of the request.
    pub body_bytes: u64,
}

pub type Outcome = PieceStored;

/// Idempotent: a retry overwrites the piece with the same content. The worker of a sandbox that has ended may still upload,
/// like its last events.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: id, piece, body_bytes } = command;
    let sandbox = deps.store.sandbox(&id).await?.ok_or_else(|| Error::no_sandbox(&id))?;
    let now = deps.quotas.clock.now();
    visibility::check_report(&principal, &sandbox, now)?;
    assignment_of(&sandbox)?;
    let mut owners = QuotaOwner::of(&principal);
    owners.push(QuotaOwner::Org(sandbox.org.clone()));
    quotas::charge(deps.quotas, &owners, Amount::new(1, body_bytes)).await?;
    let Piece { sha256, number, data } = piece;
    let expires_at = super::keep::expiry(now, deps.keep_days);
    deps.store.put_kept_piece(&id, &sha256, number, &data, expires_at).await?;
    Ok(PieceStored { status: "stored".into(), sha256: sha256.as_str().to_owned(), piece: number })
}
