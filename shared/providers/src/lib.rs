//! Where sandboxes come from: one trait, and the providers behind it.
//!
//! A sandbox is created under the plane's own name for it, so that one whose creation was answered to nobody is found
//! again by that name, and everything here may be called twice, or be cut off anywhere and called again.
//!
//! Deliberately absent: retries, the order of the steps, and what a failure means for a task. Those are the caller's,
//! who keeps a record; a provider keeps none beside what is there.

pub mod daytona;
pub mod process;
mod tail;

use domain::SandboxId;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
pub use tail::Tail;

/// What a provider will have answered, within its own deadline.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// Somebody who runs sandboxes for us. Every call has a deadline, and may be repeated whatever came of the last one.
pub trait SandboxProvider: Send + Sync + fmt::Debug {
    /// What it is called in settings, records and logs: `process`, `daytona`.
    fn name(&self) -> &'static str;

    /// What it keeps a sandbox from, and what it does not, in plain words for whoever runs the plane.
    fn isolation(&self) -> String;

    /// Has a sandbox made. One that is already there under this name is what is answered, in whatever state it is;
    /// what takes longer is answered as [`State::Coming`], and [`SandboxProvider::find`] tells how far it is. When it is
    /// ready, this is called once more: what can only be done then, such as another size, is done by that call.
    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found>;

    /// The sandbox of this name, or `None` if the provider has none, or only remembers that it had one.
    fn find<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<Found>>;

    /// Puts the worker's program into a sandbox that is [`State::Ready`]. Twice is as good as once.
    fn upload<'a>(&'a self, found: &'a Found) -> Answer<'a, ()>;

    /// Starts the worker with these variables, among which there are secrets. A worker that runs is left alone, with the
    /// variables that it has.
    fn start<'a>(&'a self, found: &'a Found, variables: &'a BTreeMap<String, String>) -> Answer<'a, ()>;

    /// Asks for the end of a sandbox and of everything that runs in it. [`Gone::Yes`] only when the provider itself says
    /// that there is none of this name, so one that never was is gone too.
    fn destroy<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Gone>;

    /// All sandboxes with our plane's label, in whatever state. A list that could not be read to its end is a failure:
    /// whoever is not on it counts as lost.
    fn list<'a>(&'a self) -> Answer<'a, Vec<Listed>>;

    /// How the worker of a sandbox that is there has ended, in words for people, if the provider sees that it has. One
    /// that sees nothing of workers says nothing, as this does; then a worker that died is missed by its silence.
    fn ended<'a>(&'a self, _name: &'a SandboxId) -> Answer<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The end of what the worker itself has printed, at most [`LOG_BYTES`]. Nothing printed is an empty text, and so is
    /// the log of a sandbox that has been removed, unless the provider keeps it.
    fn logs<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Tail>;

    /// Where a port of the sandbox can be reached from outside, if it can be.
    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> Answer<'a, Option<Link>>;
}

/// Most of a worker's output that [`SandboxProvider::logs`] answers: its end, where the reason is.
pub const LOG_BYTES: usize = 64 * 1024;

/// What a sandbox is to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Our own name for it. There is at most one of each.
    pub name: SandboxId,
    /// Which plane's it is: several may share an account, and each sweeps only its own.
    pub plane: String,
    /// How large it is, and what is in it.
    pub resources: Resources,
    /// What of that somebody has asked for just for this one: worth another request, should the snapshot have less.
    pub asked: Asked,
    /// Further labels, for people who look at the provider's own pages. The provider's own win over these.
    pub labels: BTreeMap<String, String>,
    /// After which time the provider ends it by itself, if it can: the last resort against leaks.
    pub lifetime_minutes: u32,
}

/// How large a sandbox is, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Memory.
    pub memory_gb: u32,
    /// Processors.
    pub cpu: u32,
    /// Disk.
    pub disk_gb: u32,
    /// The provider's prepared system to start from; empty for none.
    pub snapshot: String,
    /// The container image to start from where the snapshot is not known; empty for none.
    pub image: String,
}

/// What somebody has asked for just for one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Memory.
    pub memory_gb: Option<u32>,
    /// Processors.
    pub cpu: Option<u32>,
}

/// A sandbox that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Our name for it.
    pub name: SandboxId,
    /// The provider's name for it.
    pub provider_id: String,
    /// How far it is.
    pub state: State,
    /// What it has really got, if the provider says so. That may be something else than was wished for.
    pub made_of: Option<MadeOf>,
}

/// What a sandbox has really got, as far as its provider says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MadeOf {
    /// The prepared system that it was started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The container image that it was started from instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    /// Processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
}

/// How far a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is being made: ask again.
    Coming,
    /// A worker can be put into it.
    Ready,
    /// It is being taken down, or has stopped: no worker will run in it again.
    Going,
    /// It will not become ready; the provider's reason.
    Broken(String),
}

/// A sandbox on the provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Our name for it.
    pub name: SandboxId,
    /// The provider's name for it.
    pub provider_id: String,
    /// When it was made, in seconds since 1970, if the provider says so.
    pub created_at_secs: Option<i64>,
}

/// Where a port of a sandbox can be reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    /// The address.
    pub url: String,
    /// What to send along, if it is not for everybody.
    pub token: Option<String>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Link").field("url", &self.url).field("token", &token).finish()
    }
}

/// Whether a sandbox is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The provider has none of this name.
    Yes,
    /// It has been asked to end it: call again.
    NotYet,
}

/// Why a provider did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What the caller can do about it.
    pub class: FailureClass,
    /// What happened, for people. No secrets are in it.
    pub message: String,
}

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// We ask too much at once: wait so long, then ask again.
    Busy {
        /// How long, if the provider says so.
        retry_after_secs: Option<u64>,
    },
    /// Nobody answered, or not in time, or they have trouble of their own, or with us: nothing that is wrong with what
    /// was wished for. It may or may not have been done.
    Unreachable,
    /// It will be no better the next time: what was wished for cannot be had.
    Refused,
}

impl Failure {
    /// It may or may not have been done.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { class: FailureClass::Unreachable, message: message.into() }
    }

    /// It will be no better the next time.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { class: FailureClass::Refused, message: message.into() }
    }
}
