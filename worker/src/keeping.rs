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

/// Files that are worth keeping.
struct Due {
    keeper: Keeper,
    content: Content,
    has_patch: bool,
}

/// The files that were uploaded, with what they do not contain.
struct Upload<'a> {
    keeping: &'a Keeping,
    files: Vec<KeptFile>,
    left_out: Vec<LeftOut>,
}

impl Upload<'_> {
    /// Uploads a file, and makes it part of the kept work at once.
    async fn add(&mut self, file: Result<KeptFile, Error>) -> Result<(), Error> {
        let file = file?;
        self.keeping.upload(&file).await?;
        self.files.push(file);
        self.keeping.declare(&self.files, &self.left_out).await
    }

    fn report(&self) {
        if self.files.is_empty() {
            return;
        }
        let kept = |file: &KeptFile| WorkspaceKeptFile {
            format: file.format.as_str().to_owned(),
            size_bytes: file.size_bytes,
        };
        let part = |part: LeftOut| WorkspacePart { path: part.path, reason: part.reason };
        self.keeping.0.options.outbox.emit(Event::worker(WorkspaceKept {
            files: self.files.iter().map(kept).collect(),
            left_out: first(&self.left_out).into_iter().map(part).collect(),
            left_out_count: self.left_out.len() as u64,
        }));
    }
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

    /// A file that fails does not take the others with it. The commits come first: they are what the task is about.
    async fn upload_all(&self, is_saved: bool) -> Result<(), Error> {
        let mut last = self.0.last.lock().await;
        let saver = &self.0.options.saver;
        let unpushed = match saver.origin() {
            Some(origin) => origin.relay.unpushed().await,
            None => None,
        };
        let (mut due, mut failure) = match self.due(is_saved).await {
            Ok(due) => (due, None),
            Err(error) => (None, Some(error)),
        };
        if unpushed.is_none() && due.is_none() {
            return failure.map_or(Ok(()), Err);
        }
        let tree = due.as_ref().map(|due| due.content.tree.as_str()).unwrap_or_default();
        let state = format!("{} {tree}", unpushed.as_deref().unwrap_or_default());
        if last.as_deref() == Some(&state) {
            return failure.map_or(Ok(()), Err);
        }
        let mut upload = Upload { keeping: self, files: Vec::new(), left_out: Vec::new() };
        let origin = saver.origin().filter(|_| unpushed.is_some());
        if let Some(origin) = origin
            && let Err(error) = upload.add(self.bundle(origin).await).await
        {
            // Without the commits, the files are what is left of the work.
            if due.is_none() {
                due = self.content(&Part::All, false).await.unwrap_or(None);
            }
            failure.get_or_insert(error);
        }
        if let Some(Due { keeper, content, .. }) = &due {
            upload.left_out.clone_from(&content.left_out);
            if let Err(error) = upload.add(keeper.archive(content).await.map_err(Error::from)).await {
                failure.get_or_insert(error);
            }
        }
        // Last, because the other files have everything. It is only for reading.
        let patch = match (&due, origin) {
            (_, Some(origin)) => self.patch_of_commits(origin).await,
            (Some(Due { keeper, content, has_patch: true }), None) => {
                keeper.patch(content).await.map_err(Error::from)
            }
            _ => Ok(None),
        };
        if let Some(patch) = patch.transpose()
            && let Err(error) = upload.add(patch).await
        {
            tracing::warn!("The patch cannot be kept: {error}");
        }
        upload.report();
        if let Some(error) = failure {
            return Err(error);
        }
        *last = Some(state);
        Ok(())
    }

    /// The files that are worth keeping now, besides commits.
    async fn due(&self, is_saved: bool) -> Result<Option<Due>, Error> {
        let saver = &self.0.options.saver;
        let repositories = saver.repositories_left_out().await;
        // The patch is what has changed since the directory was empty.
        let (part, has_patch) = match saver.origin() {
            None if saver.is_own_repository().await => (Part::All, true),
            // A directory of a person, which stays where it is.
            None => return Ok(None),
            Some(_) if !is_saved => (Part::All, false),
            Some(_) if repositories.is_empty() => return Ok(None),
            Some(_) => (Part::Directories(repositories), false),
        };
        self.content(&part, has_patch).await
    }

    async fn content(&self, part: &Part, has_patch: bool) -> Result<Option<Due>, Error> {
        let Options { settings, saver, max_bytes, .. } = &self.0.options;
        let keeper = Keeper::open(settings, *max_bytes).await?;
        let mut content = keeper.content(part).await?;
        let repositories = match saver.origin() {
            Some(_) => saver.repositories_left_out().await,
            None => Vec::new(),
        };
        let not_on_branch = repositories.iter().map(|directory| {
            let path = String::from_utf8_lossy(directory).into_owned();
            let reason =
                "not on the branch, because it is a repository of its own; its files are in the archive";
            LeftOut { path, reason: reason.to_owned() }
        });
        content.left_out.splice(0..0, not_on_branch);
        let is_empty = keeper.is_empty(&content).await?;
        Ok((!is_empty).then_some(Due { keeper, content, has_patch }))
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
