//! Sandbox providers: one trait and its implementations.
//!
//! A sandbox is created under the plane's own name for it, so that it is found again by that name if the response to its
//! creation was lost. Every call is idempotent and may be interrupted and retried.
//!
//! A provider is a folder here, and a line in [`PROVIDERS`]. [`process`] is not in the list: it needs the machine of the
//! plane, so only the local host constructs it.
//!
//! Deliberately absent: retries, the order of the steps, and what a failure means for a task. The caller decides those
//! and keeps the records; a provider has no state of its own.

pub mod daytona;
mod kind;
pub mod process;
mod tail;

pub use domain::resources::ActualResources;

use domain::SandboxId;
use futures_util::future::BoxFuture;
pub use kind::{Created, Environment, ProviderKind, SecretNames, Setting, Values, WorkerSource};
use std::collections::BTreeMap;
use std::fmt;
pub use tail::Tail;

/// The providers that every host can use. The first is the default where sandboxes cannot run on the plane's own machine.
pub const PROVIDERS: &[&ProviderKind] = &[&daytona::DAYTONA];

/// Result of a provider call. It resolves within the provider's own deadline.
pub type ProviderFuture<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// Runs sandboxes. Every call has a deadline and is idempotent.
pub trait SandboxProvider: Send + Sync + fmt::Debug {
    /// Name in settings, records and logs: `process`, `daytona`.
    fn name(&self) -> &'static str;

    /// Describes to the operator what a sandbox is isolated from, and what it is not.
    fn isolation(&self) -> String;

    /// Creates a sandbox, or returns the existing one of this name in whatever state it is. A slow creation returns
    /// [`State::Pending`]; poll with [`SandboxProvider::find`]. When the sandbox is ready, call this once more: changes that
    /// need a running sandbox, such as a resize, happen in that call.
    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found>;

    /// The sandbox of this name; `None` if it does not exist or is deleted.
    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>>;

    /// Uploads the worker executable into a sandbox that is [`State::Ready`]. Idempotent.
    fn upload<'a>(&'a self, found: &'a Found) -> ProviderFuture<'a, ()>;

    /// Starts the worker with these environment variables, which include secrets. A running worker is left alone and keeps
    /// its variables.
    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()>;

    /// Deletes a sandbox and everything that runs in it. Returns [`Deletion::Done`] only when the provider confirms that no
    /// sandbox of this name exists, which includes one that never existed.
    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion>;

    /// All sandboxes with this plane's label, in any state. An incomplete list is a failure, because the caller treats
    /// sandboxes that are missing from it as lost.
    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>>;

    /// A human-readable description of how the worker of an existing sandbox exited, if the provider can tell. The default
    /// cannot; then missing heartbeats reveal a dead worker.
    fn worker_exit<'a>(&'a self, _name: &'a SandboxId) -> ProviderFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The tail of the worker's output, at most [`LOG_BYTES`]. Empty if there is no output, or if the sandbox is deleted and
    /// the provider did not keep its log.
    fn logs<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Tail>;

    /// Public URL of a port of the sandbox, if there is one.
    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> ProviderFuture<'a, Option<Link>>;
}

/// Maximum size of the tail that [`SandboxProvider::logs`] returns.
pub const LOG_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Unique among the sandboxes of a provider.
    pub name: SandboxId,
    /// Label of the owning plane. Several planes may share an account, and each sweeps only its own sandboxes.
    pub plane: String,
    pub resources: Resources,
    /// Resources requested for this sandbox in particular. If the snapshot has less, the sandbox is resized.
    pub requested: RequestedSize,
    /// Additional labels for the provider's dashboard. The provider's own labels take precedence.
    pub labels: BTreeMap<String, String>,
    /// The provider deletes the sandbox after this time, if it can: the last resort against leaks.
    pub lifetime_minutes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    pub memory_gb: u32,
    pub cpu: u32,
    pub disk_gb: u32,
    /// Snapshot of the provider to start from; empty for none.
    pub snapshot: String,
    /// Container image to start from if the snapshot does not exist; empty for none.
    pub image: String,
}

/// Memory and CPUs that a task requests for its own sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedSize {
    pub memory_gb: Option<u32>,
    pub cpu: Option<u32>,
}

/// A sandbox that exists at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub name: SandboxId,
    pub provider_id: String,
    pub state: State,
    /// What the sandbox really has, if the provider reports it. May differ from the spec.
    pub actual_resources: Option<ActualResources>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Being created: poll again.
    Pending,
    /// A worker can be uploaded and started.
    Ready,
    /// Being deleted, or stopped: no worker will run in it again.
    Deleting,
    /// Will never become ready; holds the provider's reason.
    Broken(String),
}

/// An entry of [`SandboxProvider::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: SandboxId,
    pub provider_id: String,
    /// Unix time of its creation, if the provider reports it.
    pub created_at_secs: Option<i64>,
}

/// Public URL of a port of a sandbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    pub url: String,
    /// Access token, if the URL is not public.
    pub token: Option<String>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Link").field("url", &self.url).field("token", &token).finish()
    }
}

/// Progress of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The provider has no sandbox of this name.
    Done,
    /// Deletion was requested: call again.
    InProgress,
}

/// Why a provider call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub class: FailureClass,
    /// Human-readable, without secrets.
    pub message: String,
}

/// Failures by what the caller can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Rate limit or quota reached: retry later.
    Busy { retry_after_secs: Option<u64> },
    /// No response, a timeout, or a failure that is not caused by the spec. The call may or may not have taken effect: retry.
    Unreachable,
    /// Permanent: the provider cannot fulfil the spec.
    Refused,
}

impl Failure {
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { class: FailureClass::Unreachable, message: message.into() }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self { class: FailureClass::Refused, message: message.into() }
    }
}
