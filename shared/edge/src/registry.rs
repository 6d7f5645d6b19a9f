//! Every function of the plane: its name, what triggers it, and what it reaches.
//!
//! The local hosts mount from this list, the access test walks through it, and `template.yaml` is checked against
//! it: triggers, environment and permissions.

use crate::http::{Handler, events, messages, monitoring, sandboxes, sessions, tasks, tickets};
use crate::schedule::{self, Tick};
use domain::access::Scope;
use http::Method;

/// One function: on Lambda a binary of this name.
#[derive(Debug, Clone)]
pub struct Function {
    /// Group and verb: `events-ingest`.
    pub name: &'static str,
    /// What starts it.
    pub trigger: Trigger,
    /// What it reaches: what the `Deps` of its use case name.
    pub needs: &'static [Need],
}

/// What starts a function.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// A request.
    Http(Route),
    /// A socket opens: `$connect`.
    SocketConnect,
    /// A socket says something: `$default`.
    SocketFrame,
    /// A socket is gone: `$disconnect`.
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
    /// What sockets are told of.
    News,
    /// Turns in a life.
    Turns,
}

/// Which queue of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// What is about sockets: short, and many.
    Sockets,
    /// What is about tasks and sandboxes: it may wait for a provider.
    Work,
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

/// Something that a function reaches. On AWS each is a permission, and most are a variable of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The keys of tokens: it asks who is asking, or gives out tokens.
    Keys,
    /// Reads an item of the table.
    GetItem,
    /// Reads several.
    BatchGetItem,
    /// Reads a range of them.
    Query,
    /// Reads a range of an index.
    QueryIndexes,
    /// Puts an item, alone or in a transaction.
    PutItem,
    /// Changes an item, alone or in a transaction.
    UpdateItem,
    /// Deletes an item, alone or in a transaction.
    DeleteItem,
    /// Tells sockets something, or closes them.
    Sockets,
    /// Rings at mailboxes.
    RingMailboxes,
    /// Waits at mailboxes.
    WaitAtMailboxes,
    /// Makes mailboxes.
    MakeMailboxes,
    /// Removes mailboxes.
    RemoveMailboxes,
    /// Has something done later.
    Jobs,
    /// Publishes to the account's event bus.
    Bus,
    /// Asks for work around tasks and sandboxes.
    Work,
    /// Has sandboxes made and removed.
    Providers,
    /// Judges whether a sandbox takes too long. Nothing has to be allowed for it, but everybody must judge alike.
    Thresholds,
}

use Need::{
    BatchGetItem, Bus, DeleteItem, GetItem, Jobs, Keys, MakeMailboxes, Providers, PutItem, Query,
    QueryIndexes, RemoveMailboxes, RingMailboxes, Sockets, Thresholds, UpdateItem, WaitAtMailboxes, Work,
};

/// The list.
pub static FUNCTIONS: &[Function] = &[
    Function {
        name: "sandboxes-health",
        trigger: http(Method::GET, "/api/v1/sandboxes/health", Scope::Public, sandboxes::HEALTH),
        needs: &[],
    },
    Function {
        name: "sandboxes-list",
        trigger: http(Method::GET, "/api/v1/sandboxes", Scope::ListSandboxes, sandboxes::LIST),
        needs: &[Keys, QueryIndexes, BatchGetItem],
    },
    Function {
        name: "sandboxes-register",
        trigger: http(Method::POST, "/api/v1/sandboxes", Scope::ManageSandboxes, sandboxes::REGISTER),
        needs: &[Keys, GetItem, PutItem],
    },
    Function {
        name: "sandboxes-get",
        trigger: http(Method::GET, "/api/v1/sandboxes/{id}", Scope::ReadSandbox, sandboxes::GET),
        needs: &[Keys, GetItem],
    },
    Function {
        name: "sandboxes-rotate-token",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/token",
            Scope::ManageSandboxes,
            sandboxes::ROTATE_TOKEN,
        ),
        needs: &[Keys, GetItem, UpdateItem],
    },
    Function {
        name: "sandboxes-terminate",
        trigger: http(Method::DELETE, "/api/v1/sandboxes/{id}", Scope::ManageSandboxes, sandboxes::TERMINATE),
        needs: &[
            Keys,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            RingMailboxes,
            RemoveMailboxes,
            Work,
        ],
    },
    Function {
        name: "events-ingest",
        trigger: http(Method::POST, "/api/v1/sandboxes/{id}/events", Scope::WriteEvents, events::INGEST),
        needs: &[Keys, GetItem, PutItem, UpdateItem, Work],
    },
    Function {
        name: "events-list",
        trigger: http(Method::GET, "/api/v1/sandboxes/{id}/events", Scope::ReadSandbox, events::LIST),
        needs: &[Keys, GetItem, Query],
    },
    Function {
        name: "events-body",
        trigger: http(
            Method::GET,
            "/api/v1/sandboxes/{id}/events/{seq}/body",
            Scope::ReadSandbox,
            events::BODY,
        ),
        needs: &[Keys, GetItem, Query],
    },
    Function {
        name: "events-trajectory",
        trigger: http(
            Method::GET,
            "/api/v1/sandboxes/{id}/trajectory",
            Scope::ReadSandbox,
            events::TRAJECTORY,
        ),
        needs: &[Keys, GetItem, Query],
    },
    Function {
        name: "events-broadcast",
        trigger: Trigger::TableStream(Records::News),
        needs: &[BatchGetItem, Query, DeleteItem, UpdateItem, Sockets],
    },
    Function { name: "events-publish", trigger: Trigger::TableStream(Records::Turns), needs: &[Bus] },
    Function {
        name: "messages-send",
        trigger: http(Method::POST, "/api/v1/sandboxes/{id}/messages", Scope::SendMessages, messages::SEND),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, RingMailboxes],
    },
    Function {
        name: "messages-pull",
        trigger: http(Method::GET, "/api/v1/sandboxes/{id}/messages", Scope::TakeMessages, messages::PULL),
        needs: &[
            Keys,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            WaitAtMailboxes,
            MakeMailboxes,
        ],
    },
    Function {
        name: "messages-ack",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/messages/ack",
            Scope::TakeMessages,
            messages::ACK,
        ),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, RingMailboxes],
    },
    Function {
        name: "messages-cancel",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/messages/{message_id}/cancel",
            Scope::SendMessages,
            messages::CANCEL,
        ),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, RingMailboxes],
    },
    Function {
        name: "messages-history",
        trigger: http(
            Method::GET,
            "/api/v1/sandboxes/{id}/messages/history",
            Scope::ReadSandbox,
            messages::HISTORY,
        ),
        needs: &[Keys, GetItem, BatchGetItem, Query],
    },
    Function {
        name: "sessions-append",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/sessions/{session_id}/entries",
            Scope::WriteEvents,
            sessions::APPEND,
        ),
        needs: &[Keys, BatchGetItem, Query, PutItem, UpdateItem],
    },
    Function {
        name: "sessions-read",
        trigger: http(
            Method::GET,
            "/api/v1/sandboxes/{id}/sessions/{session_id}/entries",
            Scope::ReadSandbox,
            sessions::READ,
        ),
        needs: &[Keys, BatchGetItem, Query],
    },
    Function {
        name: "tickets-create",
        trigger: http(Method::POST, "/api/v1/tickets", Scope::ManageTasks, tickets::CREATE),
        needs: &[Keys, GetItem, BatchGetItem, QueryIndexes, PutItem, Work],
    },
    Function {
        name: "tickets-list",
        trigger: http(Method::GET, "/api/v1/tickets", Scope::ListTasks, tickets::LIST),
        needs: &[Keys, QueryIndexes, BatchGetItem],
    },
    Function {
        name: "tickets-get",
        trigger: http(Method::GET, "/api/v1/tickets/{id}", Scope::ListTasks, tickets::GET),
        needs: &[Keys, GetItem, BatchGetItem, Query],
    },
    Function {
        name: "tickets-events",
        trigger: http(Method::GET, "/api/v1/tickets/{id}/events", Scope::ListTasks, tickets::EVENTS),
        needs: &[Keys, GetItem, Query],
    },
    Function {
        name: "tickets-transition",
        trigger: http(
            Method::POST,
            "/api/v1/tickets/{id}/transition",
            Scope::ManageTasks,
            tickets::TRANSITION,
        ),
        needs: &[Keys, GetItem, PutItem],
    },
    Function {
        name: "tickets-approve",
        trigger: http(Method::POST, "/api/v1/tickets/{id}/approve", Scope::ManageTasks, tickets::APPROVE),
        needs: &[Keys, GetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tickets-reject",
        trigger: http(Method::POST, "/api/v1/tickets/{id}/reject", Scope::ManageTasks, tickets::REJECT),
        needs: &[Keys, GetItem, PutItem, DeleteItem],
    },
    Function {
        name: "tasks-create",
        trigger: http(Method::POST, "/api/v1/tasks", Scope::ManageTasks, tasks::CREATE),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-list",
        trigger: http(Method::GET, "/api/v1/tasks", Scope::ListTasks, tasks::LIST),
        needs: &[Keys, GetItem, QueryIndexes, BatchGetItem, Query],
    },
    Function {
        name: "tasks-get",
        trigger: http(Method::GET, "/api/v1/tasks/{id}", Scope::ListTasks, tasks::GET),
        needs: &[Keys, GetItem],
    },
    Function {
        name: "tasks-update",
        trigger: http(Method::PATCH, "/api/v1/tasks/{id}", Scope::ManageTasks, tasks::UPDATE),
        needs: &[Keys, GetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-events",
        trigger: http(Method::GET, "/api/v1/tasks/{id}/events", Scope::ListTasks, tasks::EVENTS),
        needs: &[Keys, GetItem, Query],
    },
    Function {
        name: "tasks-dependencies",
        trigger: http(Method::GET, "/api/v1/tasks/{id}/dependencies", Scope::ListTasks, tasks::DEPENDENCIES),
        needs: &[Keys, GetItem, BatchGetItem, Query],
    },
    Function {
        name: "tasks-add-dependencies",
        trigger: http(
            Method::POST,
            "/api/v1/tasks/{id}/dependencies",
            Scope::ManageTasks,
            tasks::ADD_DEPENDENCIES,
        ),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-replace-dependencies",
        trigger: http(
            Method::PUT,
            "/api/v1/tasks/{id}/dependencies",
            Scope::ManageTasks,
            tasks::REPLACE_DEPENDENCIES,
        ),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-remove-dependency",
        trigger: http(
            Method::DELETE,
            "/api/v1/tasks/{id}/dependencies/{dependency_id}",
            Scope::ManageTasks,
            tasks::REMOVE_DEPENDENCY,
        ),
        needs: &[Keys, GetItem, BatchGetItem, PutItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-fail",
        trigger: http(Method::POST, "/api/v1/tasks/{id}/fail", Scope::ManageTasks, tasks::FAIL),
        needs: &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-cancel",
        trigger: http(Method::POST, "/api/v1/tasks/{id}/cancel", Scope::ManageTasks, tasks::CANCEL),
        needs: &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-retry",
        trigger: http(Method::POST, "/api/v1/tasks/{id}/retry", Scope::ManageTasks, tasks::RETRY),
        needs: &[Keys, GetItem, PutItem, Work],
    },
    Function {
        name: "tasks-set-timeout",
        trigger: http(Method::POST, "/api/v1/tasks/{id}/set-timeout", Scope::ManageTasks, tasks::SET_TIMEOUT),
        needs: &[Keys, GetItem, PutItem, Work],
    },
    Function {
        name: "tasks-of-sandbox",
        trigger: http(Method::GET, "/api/v1/sandboxes/{id}/task", Scope::ReadSandbox, tasks::OF_SANDBOX),
        needs: &[Keys, GetItem],
    },
    Function {
        name: "tasks-complete",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/task-complete",
            Scope::WriteEvents,
            tasks::COMPLETE,
        ),
        needs: &[Keys, GetItem, BatchGetItem, Query, PutItem, UpdateItem, DeleteItem, Work],
    },
    Function {
        name: "tasks-validate",
        trigger: http(
            Method::POST,
            "/api/v1/sandboxes/{id}/validation-result",
            Scope::JudgeResult,
            tasks::VALIDATE,
        ),
        needs: &[Keys, GetItem, BatchGetItem, Query, PutItem, DeleteItem, Work],
    },
    Function {
        name: "monitoring-status",
        trigger: http(Method::GET, "/api/v1/monitoring/status", Scope::ListSandboxes, monitoring::STATUS),
        needs: &[Keys, Query, BatchGetItem, Thresholds],
    },
    Function {
        name: "monitoring-phase",
        trigger: http(
            Method::GET,
            "/api/v1/sandboxes/{id}/phase-status",
            Scope::ReadSandbox,
            monitoring::PHASE,
        ),
        needs: &[Keys, GetItem],
    },
    Function {
        name: "sandboxes-dispatch",
        trigger: Trigger::Jobs(Queue::Work),
        needs: &[
            Keys,
            GetItem,
            BatchGetItem,
            Query,
            PutItem,
            UpdateItem,
            DeleteItem,
            RingMailboxes,
            RemoveMailboxes,
            Work,
            Providers,
            Thresholds,
        ],
    },
    Function {
        name: "sandboxes-sweep",
        trigger: Trigger::Schedule(Schedule {
            every_minutes: 1,
            locally_every_secs: 2,
            tick: schedule::SWEEP,
        }),
        needs: &[BatchGetItem, Query, PutItem, Work, Thresholds],
    },
    Function {
        name: "sandboxes-compare",
        trigger: Trigger::Schedule(Schedule {
            every_minutes: 5,
            locally_every_secs: 3,
            tick: schedule::SWEEP_PROVIDERS,
        }),
        needs: &[GetItem, BatchGetItem, Query, PutItem, UpdateItem, Work, Providers],
    },
    Function {
        name: "realtime-connect",
        trigger: Trigger::SocketConnect,
        needs: &[Keys, GetItem, PutItem, UpdateItem, Jobs],
    },
    Function {
        name: "realtime-frame",
        trigger: Trigger::SocketFrame,
        needs: &[Keys, GetItem, PutItem, UpdateItem, DeleteItem, Sockets],
    },
    Function {
        name: "realtime-disconnect",
        trigger: Trigger::SocketDisconnect,
        needs: &[DeleteItem, UpdateItem],
    },
    Function {
        name: "realtime-expire",
        trigger: Trigger::Jobs(Queue::Sockets),
        needs: &[DeleteItem, Sockets],
    },
    Function {
        name: "platform-check",
        trigger: Trigger::Schedule(Schedule {
            every_minutes: 1,
            locally_every_secs: 60,
            tick: schedule::CHECK,
        }),
        needs: &[BatchGetItem],
    },
];

const fn http(method: Method, path: &'static str, scope: Scope, handler: Handler) -> Trigger {
    Trigger::Http(Route { method, path, scope, handler })
}

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    /// Whether it reaches this.
    pub fn reaches(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
}

/// A route that a request belongs to.
#[derive(Debug)]
pub struct Match {
    /// The function.
    pub function: &'static Function,
    /// Its route.
    pub route: &'static Route,
    /// What stood in place of its parameters, in order, still escaped.
    pub parameters: Vec<String>,
}

/// Why a request belongs to no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMatch {
    /// No such path.
    Path,
    /// The path exists; the method does not.
    Method,
}

/// The route of a request. Of several that fit, the one with the fewest parameters: `/sandboxes/health` is not
/// a sandbox, in whatever order the list is.
pub fn resolve(method: &Method, path: &str) -> Result<Match, NoMatch> {
    let path = canonical(path);
    let mut fitting: Vec<Match> = FUNCTIONS
        .iter()
        .filter_map(|function| {
            let Trigger::Http(route) = &function.trigger else { return None };
            Some(Match { function, route, parameters: fit(route.path, &path)? })
        })
        .collect();
    fitting.sort_by_key(|found| found.parameters.len());
    let fewest = fitting.first().ok_or(NoMatch::Path)?.parameters.len();
    let same = fitting.into_iter().take_while(|found| found.parameters.len() == fewest);
    same.into_iter().find(|found| found.route.method == *method).ok_or(NoMatch::Method)
}

/// Every spelling of a path that [`resolve`] understands and a router must know: `/api/v1/sandbox/{id}/…` is an alias,
/// and so is `…/message`.
pub fn spellings(path: &str) -> Vec<String> {
    let alias = path.strip_prefix("/api/v1/sandboxes/").filter(|rest| rest.starts_with('{'));
    let alias = alias.map(|rest| format!("/api/v1/sandbox/{rest}"));
    let singular = alias.as_ref().filter(|alias| alias.ends_with("/messages"));
    let singular = singular.and_then(|alias| alias.strip_suffix('s')).map(str::to_owned);
    let nested = (path == MONITORING).then(|| NESTED_MONITORING.to_owned());
    [Some(path.to_owned()), alias, singular, nested].into_iter().flatten().collect()
}

const MONITORING: &str = "/api/v1/monitoring/status";
/// As OmoiOS spells it.
const NESTED_MONITORING: &str = "/api/v1/sandboxes/monitoring/status";

/// The seeds' singular spellings are aliases: `/api/v1/sandbox/{id}/message` is `/api/v1/sandboxes/{id}/messages`.
pub fn canonical(path: &str) -> String {
    let path = path.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(path);
    if path == NESTED_MONITORING {
        return MONITORING.to_owned();
    }
    let Some(rest) = path.strip_prefix("/api/v1/sandbox/") else { return path.to_owned() };
    let rest = match rest.strip_suffix("/message") {
        Some(id) => format!("{id}/messages"),
        None => rest.to_owned(),
    };
    format!("/api/v1/sandboxes/{rest}")
}

fn fit(pattern: &str, path: &str) -> Option<Vec<String>> {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    let mut parameters = Vec::new();
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return Some(parameters),
            (Some(parameter), Some(value)) if parameter.starts_with('{') && !value.is_empty() => {
                parameters.push(value.to_owned());
            }
            (Some(literal), Some(value)) if literal == value => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(method: Method, path: &str) -> Result<&'static str, NoMatch> {
        resolve(&method, path).map(|found| found.function.name)
    }

    #[test]
    fn every_route_can_be_reached() {
        for function in FUNCTIONS {
            if let Trigger::Http(route) = &function.trigger {
                let path = route.path.replace("{id}", "s-1").replace("{seq}", "7");
                let path = path.replace("{message_id}", "m-1").replace("{session_id}", "c0ffee");
                let path = path.replace("{dependency_id}", "t-2");
                assert_eq!(name(route.method.clone(), &path), Ok(function.name));
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = FUNCTIONS.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), FUNCTIONS.len());
    }

    #[test]
    fn singular_spellings_are_aliases() {
        assert_eq!(name(Method::POST, "/api/v1/sandbox/s-1/events"), Ok("events-ingest"));
        assert_eq!(name(Method::GET, "/api/v1/sandbox/s-1/events/"), Ok("events-list"));
        assert_eq!(name(Method::POST, "/api/v1/sandbox/s-1/message"), Ok("messages-send"));
        assert_eq!(name(Method::GET, "/api/v1/sandbox/s-1/messages/history"), Ok("messages-history"));
        assert_eq!(canonical("/api/v1/sandbox/s-1/ws"), "/api/v1/sandboxes/s-1/ws");
        assert_eq!(canonical("/"), "/");
        assert_eq!(
            spellings("/api/v1/sandboxes/{id}/events"),
            ["/api/v1/sandboxes/{id}/events", "/api/v1/sandbox/{id}/events"]
        );
        assert_eq!(
            spellings("/api/v1/sandboxes/{id}/messages").last().unwrap(),
            "/api/v1/sandbox/{id}/message"
        );
        assert_eq!(spellings("/api/v1/sandboxes"), ["/api/v1/sandboxes"]);
    }

    #[test]
    fn a_wrong_method_is_not_a_wrong_path() {
        assert_eq!(name(Method::DELETE, "/api/v1/sandboxes/s-1/events"), Err(NoMatch::Method));
        assert_eq!(name(Method::POST, "/api/v1/sandboxes/health"), Err(NoMatch::Method));
        assert_eq!(name(Method::GET, "/api/v1/nothing"), Err(NoMatch::Path));
        assert_eq!(name(Method::GET, "/api/v1/sandboxes//events"), Err(NoMatch::Path));
    }
}
