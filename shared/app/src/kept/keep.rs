//! Makes uploaded files the kept work of the attempt of a sandbox.

use super::assignment_of;
use crate::error::Error;
use crate::{quotas, visibility};
use contract::workspaces::{Keep, TaskWorkspace};
use domain::access::Principal;
use domain::kept::KeptWork;
use domain::quota::{Amount, QuotaOwner};
use domain::{SandboxId, Timestamp};
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
    pub keep: Keep,
    /// Size of the request.
    pub body_bytes: u64,
}

pub type Outcome = TaskWorkspace;

/// The worker has uploaded all pieces before. A retry stores the same; a later request of the same attempt replaces it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: id, keep, body_bytes } = command;
    let sandbox = deps.store.sandbox(&id).await?.ok_or_else(|| Error::no_sandbox(&id))?;
    let now = deps.quotas.clock.now();
    visibility::check_report(&principal, &sandbox, now)?;
    let (task, attempt) = assignment_of(&sandbox)?;
    let mut owners = QuotaOwner::of(&principal);
    owners.push(QuotaOwner::Org(sandbox.org.clone()));
    quotas::charge(deps.quotas, &owners, Amount::new(1, body_bytes)).await?;
    let Keep { files, left_out, left_out_count } = keep;
    let kept = KeptWork {
        sandbox: id,
        attempt,
        kept_at: now,
        expires_at: expiry(now, deps.keep_days),
        files,
        left_out,
        left_out_count,
    };
    deps.store.put_kept_work(task, &kept).await?;
    Ok(TaskWorkspace::new(task.clone(), kept))
}

/// Until when work is kept that is stored now.
pub(super) fn expiry(now: Timestamp, days: u32) -> Timestamp {
    now.plus_secs(i64::from(days) * 24 * 3600)
}
