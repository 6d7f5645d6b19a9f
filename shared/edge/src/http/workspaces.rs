//! Kept work: uploads of workers, and downloads.

use super::endpoint::{ok, text};
use super::tasks::task;
use super::{Call, Endpoint, json};
use app::{Error, kept};
use bytes::Bytes;
use contract::ProblemCode::{NoWorkspace, TaskMismatch, WorkspaceExpired};
use contract::query::Parameter;
use contract::requests::{KeepPiece, KeepWork};
use contract::workspaces::{Keep, MAX_PIECES, Piece, PieceStored, TaskWorkspace};
use domain::kept::Format;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

/// `POST /api/v1/sandboxes/{id}/workspace/pieces`.
pub const STORE_PIECE: Endpoint = Endpoint::new(|call| Box::pin(store_piece(call)), &[ok::<PieceStored>()])
    .body::<KeepPiece>()
    .problems(&[TaskMismatch])
    .counts_its_writes();
/// `POST /api/v1/sandboxes/{id}/workspace`.
pub const KEEP: Endpoint = Endpoint::new(|call| Box::pin(keep(call)), &[ok::<TaskWorkspace>()])
    .body::<KeepWork>()
    .problems(&[TaskMismatch])
    .counts_its_writes();
/// `GET /api/v1/tasks/{id}/workspace`.
pub const READ: Endpoint =
    Endpoint::new(|call| Box::pin(read(call)), &[text(ARCHIVE), text(PATCH), text(BUNDLE)])
        .query(&[FORMAT, PIECE, ATTEMPT])
        .problems(&[NoWorkspace, WorkspaceExpired]);
/// `GET /api/v1/tasks/{id}/workspace/files`.
pub const FILES: Endpoint = Endpoint::new(|call| Box::pin(files(call)), &[ok::<TaskWorkspace>()])
    .query(&[ATTEMPT])
    .problems(&[NoWorkspace, WorkspaceExpired]);

const ARCHIVE: &str = Format::Archive.media_type();
const PATCH: &str = Format::Patch.media_type();
const BUNDLE: &str = Format::Bundle.media_type();

const FORMAT: Parameter = Parameter::one_of(
    "format",
    || Format::ALL.map(Format::as_str).into(),
    "`archive`: the files (tar, compressed with zstd). `patch`: the changes. `bundle`: commits that the code host did not \
     get. Default: `archive`, or else `bundle`.",
);
const PIECE: Parameter = Parameter::integer(
    "piece",
    1,
    MAX_PIECES,
    "Number of a piece of 2 MiB. Required if the file has more than one; join them in order.",
);
const ATTEMPT: Parameter = Parameter::integer(
    "attempt",
    1,
    u32::MAX as u64,
    "Number of the attempt. Default: the latest of which work is kept.",
);

async fn store_piece(call: Call) -> Result<Response<Bytes>, Error> {
    let (sandbox, piece) = (call.sandbox()?, Piece::decode(&call.body)?);
    let plane = &call.plane;
    let (store, keep_days) = (&plane.store, plane.settings.workspace_days);
    let deps = kept::store_piece::Deps { store, quotas: plane.quota_deps(), keep_days };
    let (principal, body_bytes) = (call.principal, call.body.len() as u64);
    let command = kept::store_piece::Command { principal, sandbox, piece, body_bytes };
    Ok(json(StatusCode::OK, &kept::store_piece::run(deps, command).await?))
}

async fn keep(call: Call) -> Result<Response<Bytes>, Error> {
    let (sandbox, keep) = (call.sandbox()?, Keep::decode(&call.body)?);
    let plane = &call.plane;
    let (store, keep_days) = (&plane.store, plane.settings.workspace_days);
    let deps = kept::keep::Deps { store, quotas: plane.quota_deps(), keep_days };
    let (principal, body_bytes) = (call.principal, call.body.len() as u64);
    let command = kept::keep::Command { principal, sandbox, keep, body_bytes };
    Ok(json(StatusCode::OK, &kept::keep::run(deps, command).await?))
}

async fn read(call: Call) -> Result<Response<Bytes>, Error> {
    let task = task(&call)?;
    let name = call.query.one_of(&FORMAT)?;
    let command = kept::read::Command {
        task: task.clone(),
        attempt: attempt(&call)?,
        format: Format::ALL.into_iter().find(|format| Some(format.as_str()) == name),
        piece: call.query.number(&PIECE)?,
        principal: call.principal,
    };
    let deps = kept::read::Deps { store: &call.plane.store, clock: call.plane.clock.as_ref() };
    let kept::read::Outcome { file, data } = kept::read::run(deps, command).await?;
    let mut response = Response::new(Bytes::from(data));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.format.media_type()));
    // A browser must not show what an agent wrote as a page of the plane.
    let disposition = format!("attachment; filename=\"{task}.{}\"", file.format.extension());
    let disposition = HeaderValue::from_str(&disposition).expect("an id contains no quotes");
    headers.insert(CONTENT_DISPOSITION, disposition);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

async fn files(call: Call) -> Result<Response<Bytes>, Error> {
    let (task, attempt) = (task(&call)?, attempt(&call)?);
    let deps = kept::list::Deps { store: &call.plane.store, clock: call.plane.clock.as_ref() };
    let command = kept::list::Command { principal: call.principal, task, attempt };
    Ok(json(StatusCode::OK, &kept::list::run(deps, command).await?))
}

fn attempt(call: &Call) -> Result<Option<u32>, Error> {
    let number = call.query.number(&ATTEMPT)?;
    Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}
