//! Keeps the work of the agent that no code host has: uploads it to the plane, before the sandbox is removed.
//!
//! | task | what is kept |
//! |---|---|
//! | without a repository | an archive of the workspace, and a patch |
//! | whose commits have not reached the host | a bundle of these commits, and a patch |
//! | whose changes cannot be committed | also an archive of the workspace |
//! | with repositories in the workspace that are not part of the branch | an archive of these |
//!
//! Deliberately absent: what is on the branch of the task.

use crate::event::Event;
use crate::outbox::Outbox;
use crate::relay;
use crate::workspace::keep::{self, Content, Keeper, KeptFile, MAX_PATCH_BYTES, Part};
use crate::workspace::save::Saver;
use crate::workspace::{Origin, Settings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Attempt, Backoff, SandboxApi, Wait};
use contract::ProblemCode;
use contract::payloads::{WorkspaceKeepFailed, WorkspaceKept, WorkspaceKeptFile, WorkspacePart};
use contract::problem::Problem;
use contract::requests::{KeepFile, KeepPiece, KeepWork};
use contract::workspaces::{MAX_LEFT_OUT, MAX_LEFT_OUT_CHARS};
use domain::kept::{Format, LeftOut, MAX_FILE_BYTES, PIECE_BYTES};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

#[derive(Debug)]
pub struct Options {
    pub settings: Settings,
    pub api: SandboxApi,
    pub saver: Saver,
    pub outbox: Outbox,
    /// Limit of the files in an archive, before compression.
    pub max_bytes: u64,
    /// Whether the sandbox works on a task of the plane. Others are not removed by the plane.
    pub has_task: bool,
}

/// Clones share what they have uploaded.
#[derive(Debug, Clone)]
pub struct Keeping(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    /// What was uploaded last. One upload at a time.
    last: Mutex<Option<String>>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Keep(#[from] keep::Error),
    #[error(transparent)]
    Relay(#[from] relay::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the {} has {size_bytes} bytes, and at most {MAX_FILE_BYTES} can be kept", .format.as_str())]
    TooLarge { format: Format, size_bytes: u64 },
    #[error("the plane has refused it: {}", .0.detail)]
    Refused(Box<Problem>),
}

/// What is worth keeping now.
struct Due {
    /// The last commit that the host does not have.
    unpushed: Option<String>,
    content: Option<(Keeper, Content, bool)>,
}

impl Keeping {
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Inner { options, last: Mutex::default() }))
    }

    /// Uploads what no code host has, unless that was uploaded before. `is_saved`: all changes are committed. A failure
    /// becomes an event.
    pub async fn keep(&self, is_saved: bool, limit: Duration) {
        if !self.0.options.has_task {
            return;
        }
        let error = match timeout(limit, self.upload_all(is_saved)).await {
            Ok(Ok(())) => return,
            // The plane did not start this worker, and does not remove its files.
            Ok(Err(Error::Refused(problem))) if problem.code == ProblemCode::TaskMismatch.as_str() => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it was not uploaded within {} s", limit.as_secs()),
        };
        tracing::warn!("The work cannot be kept: {error}");
        self.0.options.outbox.emit(Event::worker(WorkspaceKeepFailed { error }));
    }

    async fn upload_all(&self, is_saved: bool) -> Result<(), Error> {
        let mut last = self.0.last.lock().await;
        let due = self.due(is_saved).await?;
        let tree = due.content.as_ref().map(|(_, content, _)| content.tree.as_str());
        if due.unpushed.is_none() && tree.is_none() {
            return Ok(());
        }
        let state = format!("{} {}", due.unpushed.as_deref().unwrap_or_default(), tree.unwrap_or_default());
        if last.as_deref() == Some(&state) {
            return Ok(());
        }
        let left_out = due.content.as_ref().map_or(&[][..], |(_, content, _)| &content.left_out);
        let mut files = Vec::new();
        if let Some((keeper, content, _)) = &due.content {
            files.push(keeper.archive(content).await?);
        }
        let origin = self.0.options.saver.origin().filter(|_| due.unpushed.is_some());
        if let Some(origin) = origin {
            files.push(self.bundle(origin).await?);
        }
        for file in &files {
            self.upload(file).await?;
        }
        if !files.is_empty() {
            self.declare(&files, left_out).await?;
        }
        // Last, because the other files have everything.
        let patch = match (&due.content, origin) {
            (_, Some(origin)) => self.patch_of_commits(origin).await?,
            (Some((keeper, content, true)), None) => keeper.patch(content).await?,
            _ => None,
        };
        if let Some(patch) = patch {
            self.upload(&patch).await?;
            files.push(patch);
            self.declare(&files, left_out).await?;
        }
        let kept = |file: &KeptFile| WorkspaceKeptFile {
            format: file.format.as_str().to_owned(),
            size_bytes: file.size_bytes,
        };
        let part = |part: LeftOut| WorkspacePart { path: part.path, reason: part.reason };
        self.0.options.outbox.emit(Event::worker(WorkspaceKept {
            files: files.iter().map(kept).collect(),
            left_out: first(left_out).into_iter().map(part).collect(),
            left_out_count: left_out.len() as u64,
        }));
        *last = Some(state);
        Ok(())
    }

    async fn due(&self, is_saved: bool) -> Result<Due, Error> {
        let Options { settings, saver, max_bytes, .. } = &self.0.options;
        let unpushed = match saver.origin() {
            Some(origin) => origin.relay.unpushed().await,
            None => None,
        };
        let repositories = saver.repositories_left_out().await;
        // The patch is what has changed since the directory was empty.
        let (part, has_patch) = match saver.origin() {
            None if saver.is_own_repository().await => (Part::All, true),
            // A directory of a person, which stays where it is.
            None => return Ok(Due { unpushed, content: None }),
            Some(_) if !is_saved => (Part::All, false),
            Some(_) if repositories.is_empty() => return Ok(Due { unpushed, content: None }),
            Some(_) => (Part::Directories(repositories.clone()), false),
        };
        let keeper = Keeper::open(settings, *max_bytes).await?;
        let mut content = keeper.content(&part).await?;
        let not_on_branch = repositories.iter().filter(|_| saver.origin().is_some());
        content.left_out.splice(
            0..0,
            not_on_branch.map(|directory| {
                let path = String::from_utf8_lossy(directory).into_owned();
                let reason =
                    "a repository with a remote of its own: it is not on the branch, only in the archive";
                LeftOut { path, reason: reason.to_owned() }
            }),
        );
        let is_empty = keeper.is_empty(&content).await?;
        Ok(Due { unpushed, content: (!is_empty).then_some((keeper, content, has_patch)) })
    }

    async fn bundle(&self, origin: &Origin) -> Result<KeptFile, Error> {
        let path = keep::directory(&self.0.options.settings).await?.join("bundle");
        origin.relay.write_bundle(&path).await?;
        Ok(KeptFile::of(path, Format::Bundle).await?)
    }

    async fn patch_of_commits(&self, origin: &Origin) -> Result<Option<KeptFile>, Error> {
        let path = keep::directory(&self.0.options.settings).await?.join("patch");
        origin.relay.write_patch(&path).await?;
        let patch = KeptFile::of(path, Format::Patch).await?;
        Ok(Some(patch).filter(|patch| patch.size_bytes <= MAX_PATCH_BYTES))
    }

    /// Makes uploaded files the kept work of the task.
    async fn declare(&self, files: &[KeptFile], left_out: &[LeftOut]) -> Result<(), Error> {
        let kept = |file: &KeptFile| KeepFile {
            format: file.format,
            size_bytes: file.size_bytes,
            sha256: file.sha256.as_str().to_owned(),
        };
        let request = KeepWork {
            files: files.iter().map(kept).collect(),
            left_out: Some(first(left_out)),
            left_out_count: Some(left_out.len() as u64),
        };
        let body: Arc<str> = serde_json::to_string(&request).map_err(io::Error::other)?.into();
        let request = || {
            let (api, body) = (self.0.options.api.clone(), body.clone());
            async move { api.keep_work(&body).await }
        };
        answered(request).await.map(drop)
    }

    async fn upload(&self, file: &KeptFile) -> Result<(), Error> {
        let KeptFile { format, size_bytes, .. } = *file;
        if size_bytes > MAX_FILE_BYTES {
            return Err(Error::TooLarge { format, size_bytes });
        }
        let mut content = tokio::fs::File::open(&file.path).await?;
        for piece in 1..=domain::kept::pieces(size_bytes) {
            let mut data = Vec::new();
            (&mut content).take(PIECE_BYTES).read_to_end(&mut data).await?;
            let (sha256, data) = (file.sha256.as_str().to_owned(), STANDARD.encode(data));
            let body = serde_json::to_string(&KeepPiece { sha256, piece, data }).map_err(io::Error::other)?;
            let body: Arc<str> = body.into();
            let request = || {
                let (api, body) = (self.0.options.api.clone(), body.clone());
                async move { api.keep_piece(&body).await }
            };
            answered(request).await?;
        }
        Ok(())
    }
}

/// Repeats a request until the plane answers. The caller limits the time.
async fn answered<T, Response: Future<Output = Attempt<T>>>(
    request: impl Fn() -> Response,
) -> Result<T, Error> {
    let (delays, mut attempt) = (Backoff::default(), 0);
    loop {
        match request().await {
            Attempt::Answered(response) => return Ok(response),
            Attempt::Refused(problem) => return Err(Error::Refused(problem)),
            Attempt::Failed(failed) => {
                sleep(failed.retry_after.unwrap_or_else(|| delays.wait(attempt))).await;
                attempt += 1;
            }
        }
    }
}

/// The first parts, as the plane accepts them.
fn first(left_out: &[LeftOut]) -> Vec<LeftOut> {
    let short = |text: &str| text.chars().take(MAX_LEFT_OUT_CHARS).collect::<String>();
    let parts = left_out.iter().take(MAX_LEFT_OUT);
    parts.map(|part| LeftOut { path: short(&part.path), reason: short(&part.reason) }).collect()
}
