//! Every function of the plane: its name, what triggers it, what it may do, and its limits.
//!
//! A row of [`FUNCTIONS`] is the only definition of a function. The hosts serve from the list, the access test walks
//! through it, and `cargo xtask gen` writes from it the function blocks of `template.yaml`, the alarms of
//! `infra/observability.yaml` and the route reference in `docs/routes.md`.

mod functions;
mod routing;

pub use functions::FUNCTIONS;
pub use routing::{Match, NoMatch, canonical, resolve, spellings};

use crate::http::Handler;
use crate::schedule::Tick;
use ::http::Method;
use domain::access::Scope;

/// A Lambda function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Group and verb: `events-ingest`.
    pub name: &'static str,
    /// One line for the documents and the AWS console.
    pub summary: &'static str,
    /// What starts it.
    pub trigger: Trigger,
    /// What it may do: what the `Deps` of its use case name.
    pub permissions: &'static [Permission],
    /// When Lambda ends it.
    pub timeout_secs: u32,
    /// How much memory it has, and with it how much processor.
    pub memory_mb: u32,
    /// The template's parameter that reserves concurrency for it, if there is one.
    pub reserved_concurrency: Option<&'static str>,
}

/// What starts a function.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// A request.
    Http(Route),
    /// A socket opens: `$connect`.
    SocketConnect,
    /// A socket sends a frame: `$default`.
    SocketFrame,
    /// A socket is closed: `$disconnect`.
    SocketDisconnect,
    /// Something was written to the table.
    TableStream(Records),
    /// A message on a queue of jobs.
    Jobs(Queue),
    /// Time has passed.
    Schedule(Schedule),
}

/// A method and a path with `{parameters}`.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// What it does.
    pub scope: Scope,
    /// What answers.
    pub handler: Handler,
}

/// Which records of the table's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Events that are pushed to sockets.
    Broadcast,
    /// Lifecycle events.
    Lifecycle,
}

/// Which queue of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// What is about sockets: short, and many.
    Sockets,
    /// What is about tasks and sandboxes: it may wait for a provider.
    Work,
}

impl Queue {
    /// How many jobs a function is given at a time. It does them side by side.
    pub fn batch_size(self) -> u32 {
        match self {
            Self::Sockets => 10,
            // Each may hold a worker's program in memory: see the row of `sandboxes-dispatch`.
            Self::Work => 5,
        }
    }
}

/// What happens every so often.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// How often.
    pub every_minutes: u32,
    /// How often in the local process, which may look as often as it likes.
    pub locally_every_secs: u64,
    /// What.
    pub tick: Tick,
}

/// Something that a function may do. On AWS each is a statement of its policy, and most are a variable of its
/// environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Read the keys of tokens: to authenticate callers, or to create tokens.
    Keys,
    /// Read an item of the table.
    GetItem,
    /// Read several items.
    BatchGetItem,
    /// Read a range of items.
    Query,
    /// Read a range of an index.
    QueryIndexes,
    /// Put an item, alone or in a transaction.
    PutItem,
    /// Change an item, alone or in a transaction.
    UpdateItem,
    /// Delete an item, alone or in a transaction.
    DeleteItem,
    /// Push to sockets, or close them.
    Sockets,
    /// Wake a pull that waits at a mailbox.
    NotifyMailboxes,
    /// Wait at mailboxes.
    WaitAtMailboxes,
    /// Create mailboxes.
    MakeMailboxes,
    /// Delete mailboxes.
    RemoveMailboxes,
    /// Send jobs about sockets.
    Jobs,
    /// Publish to the account's event bus.
    Bus,
    /// Send jobs about tasks and sandboxes.
    Work,
    /// Create and remove sandboxes at providers.
    Providers,
    /// Decide whether a sandbox takes too long. Needs no permission on AWS, but the same settings everywhere.
    Thresholds,
}

/// Enough for a request that makes a few calls to the table.
const DEFAULT_TIMEOUT_SECS: u32 = 10;
const DEFAULT_MEMORY_MB: u32 = 256;

/// A row with the usual limits.
const fn function(
    name: &'static str,
    summary: &'static str,
    trigger: Trigger,
    permissions: &'static [Permission],
) -> Function {
    Function {
        name,
        summary,
        trigger,
        permissions,
        timeout_secs: DEFAULT_TIMEOUT_SECS,
        memory_mb: DEFAULT_MEMORY_MB,
        reserved_concurrency: None,
    }
}

const fn http(method: Method, path: &'static str, scope: Scope, handler: Handler) -> Trigger {
    Trigger::Http(Route { method, path, scope, handler })
}

/// The function of this name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    const fn timeout_secs(mut self, timeout_secs: u32) -> Self {
        self.timeout_secs = timeout_secs;
        self
    }

    const fn memory_mb(mut self, memory_mb: u32) -> Self {
        self.memory_mb = memory_mb;
        self
    }

    const fn reserved_concurrency(mut self, parameter: &'static str) -> Self {
        self.reserved_concurrency = Some(parameter);
        self
    }

    /// Whether it has this permission.
    pub fn may(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// The part of its name before the first hyphen: `events`.
    pub fn group(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(group, _)| group)
    }
}
