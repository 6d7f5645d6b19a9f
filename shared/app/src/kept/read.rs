//! Returns a file of the kept work of a task, or a piece of it.

use super::{expired, find, no_workspace};
use crate::Clock;
use crate::error::Error;
use domain::access::Principal;
use domain::kept::{Format, KeptFile, PIECE_BYTES};
use domain::{Invalid, TaskId};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    /// Default: the latest attempt that has kept any.
    pub attempt: Option<u32>,
    /// Default: the archive, or else the bundle.
    pub format: Option<Format>,
    /// Number of the piece. Required if the file has more than one.
    pub piece: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub file: KeptFile,
    pub data: Vec<u8>,
}

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, task, attempt, format, piece } = command;
    let kept = find(deps.store, &principal, &task, attempt, deps.clock.now()).await?;
    let file = kept.file(format).ok_or_else(|| {
        let formats: Vec<&str> = kept.files.iter().map(|file| file.format.as_str()).collect();
        let wanted = format.map_or("file", Format::as_str);
        no_workspace(format!("No {wanted} is kept of the work of task {task}, only: {}.", formats.join(", ")))
    })?;
    let pieces = file.pieces();
    let number = match piece {
        Some(number) if number <= pieces => number,
        None if pieces == 1 => 1,
        None => {
            let size = file.size_bytes;
            let reason = format!("is missing: the file has {size} bytes, in pieces 1 to {pieces}");
            return Err(Invalid::new("piece", reason).into());
        }
        Some(_) => {
            return Err(Invalid::new("piece", format!("must be from 1 to {pieces}")).into());
        }
    };
    let data = deps.store.kept_piece(&kept.sandbox, &file.sha256, number).await?;
    let rest = file.size_bytes.saturating_sub((number - 1) * PIECE_BYTES);
    if data.len() as u64 != rest.min(PIECE_BYTES) {
        return Err(expired(&task, &kept));
    }
    Ok(Outcome { file: file.clone(), data })
}
