//! Every function of the plane: name, trigger, permissions and limits.
//!
//! A row of [`FUNCTIONS`] is the only definition of a function. The hosts serve from the list, the access test iterates
//! over it, and `cargo xtask gen` generates from it the function blocks of `template.yaml`, the alarms of
//! `infra/observability.yaml` and the route reference in `docs/routes.md`.

mod functions;
mod routing;

pub use functions::FUNCTIONS;
pub use routing::{Match, NoMatch, canonical, methods, resolve, spellings};

use crate::http::Endpoint;
use crate::schedule::Tick;
use ::http::Method;
use contract::ProblemCode;
use contract::limits::MAX_BODY_BYTES;
use domain::access::Scope;

/// A Lambda function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Group and verb: `events-ingest`.
    pub name: &'static str,
    /// One line for the documentation and the AWS console.
    pub summary: &'static str,
    pub trigger: Trigger,
    /// The permissions that the `Deps` of its use case need.
    pub permissions: &'static [Permission],
    pub timeout_secs: u32,
    /// Lambda allocates CPU in proportion to memory.
    pub memory_mb: u32,
    /// Template parameter with its reserved concurrency, if it has any.
    pub reserved_concurrency: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub enum Trigger {
    Http(Route),
    /// `$connect`.
    SocketConnect,
    /// `$default`.
    SocketFrame,
    /// `$disconnect`.
    SocketDisconnect,
    TableStream(Records),
    Jobs(Queue),
    Schedule(Schedule),
}

/// A method and a path with `{parameters}`.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub scope: Scope,
    /// The handler, the requests that it accepts, and its responses.
    pub endpoint: Endpoint,
    /// Maximum size of a body. A host reads no more.
    pub max_body_bytes: usize,
}

/// The problem codes that any route may respond with. A host reads the body of every request, also of a GET, so each may
/// be too large or too slow.
const COMMON_PROBLEMS: &[ProblemCode] = &[
    ProblemCode::OriginNotAllowed,
    ProblemCode::RouteNotFound,
    ProblemCode::MethodNotAllowed,
    ProblemCode::RequestTimeout,
    ProblemCode::TooLarge,
    ProblemCode::HostNotAllowed,
    ProblemCode::Invalid,
    ProblemCode::Internal,
    ProblemCode::Unavailable,
];

impl Route {
    /// Whether its requests write, and so count for the quotas of their callers.
    pub fn is_change(&self) -> bool {
        self.scope.needs_token() && self.method != Method::GET
    }

    /// Every problem code that it may respond with, in the order of [`ProblemCode::ALL`].
    pub fn problems(&self) -> Vec<ProblemCode> {
        let is_possible = |code: &ProblemCode| match code {
            ProblemCode::Unauthorized => self.scope != Scope::Public,
            ProblemCode::Forbidden => self.scope.needs_token(),
            ProblemCode::Malformed => self.endpoint.body.is_some(),
            ProblemCode::RateLimited => self.is_change(),
            // A route may also name an entity in its body.
            ProblemCode::NotFound => self.path.contains("{id}") || self.endpoint.problems.contains(code),
            // A route that asks a code host may get no response.
            ProblemCode::CodeHostUnavailable => {
                self.endpoint.problems.contains(&ProblemCode::CodeHostRefused)
            }
            code => COMMON_PROBLEMS.contains(code) || self.endpoint.problems.contains(code),
        };
        ProblemCode::ALL.iter().copied().filter(is_possible).collect()
    }
}

/// Filter for records of the table's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Events that are pushed to sockets.
    Broadcast,
    /// Lifecycle events.
    Lifecycle,
}

/// The two job queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Delayed jobs that close sockets: short and many.
    SocketJobs,
    /// Jobs that dispatch tasks and reconcile sandboxes, tasks and tickets: they may wait for a provider.
    OrchestrationJobs,
}

impl Queue {
    /// Number of jobs per invocation. They run concurrently.
    pub fn batch_size(self) -> u32 {
        match self {
            Self::SocketJobs => 10,
            // Each may hold a worker executable in memory: see the row of `sandboxes-dispatch`.
            Self::OrchestrationJobs => 5,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    pub every_minutes: u32,
    /// Interval in the local process, where ticks cost nothing.
    pub locally_every_secs: u64,
    pub tick: Tick,
}

/// On AWS each permission is a statement of the function's policy, and most add environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Read what verifies tokens, to authenticate callers.
    Keys,
    /// Read the private key of worker tokens.
    IssueTokens,
    GetItem,
    BatchGetItem,
    Query,
    QueryIndexes,
    /// Alone or in a transaction.
    PutItem,
    /// Alone or in a transaction.
    UpdateItem,
    /// Alone or in a transaction.
    DeleteItem,
    /// Push to sockets and close them.
    Sockets,
    /// Put messages onto the queues of mailboxes.
    SendToMailboxes,
    /// Receive messages, and change how long they are hidden.
    ReceiveFromMailboxes,
    /// Delete messages from the queues of mailboxes.
    DeleteFromMailboxes,
    CreateMailboxes,
    DeleteMailboxes,
    /// List the queues of all mailboxes, and whose they are.
    ListMailboxes,
    /// Enqueue jobs that close sockets ([`Queue::SocketJobs`]).
    SocketJobs,
    /// Publish to EventBridge.
    Bus,
    /// Enqueue jobs that dispatch and reconcile ([`Queue::OrchestrationJobs`]), and read the limits of tasks.
    OrchestrationJobs,
    /// Create and delete sandboxes at providers.
    Providers,
    /// Evaluate timeouts. Needs no AWS permission, but the same settings in every function.
    Thresholds,
}

/// Enough for a request with a few calls to the table.
const DEFAULT_TIMEOUT_SECS: u32 = 10;
const DEFAULT_MEMORY_MB: u32 = 256;

/// A row with the default limits.
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

const fn http(method: Method, path: &'static str, scope: Scope, endpoint: Endpoint) -> Trigger {
    Trigger::Http(Route { method, path, scope, endpoint, max_body_bytes: MAX_BODY_BYTES })
}

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

    pub fn may(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// The part of its name before the first hyphen: `events`.
    pub fn group(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(group, _)| group)
    }
}
