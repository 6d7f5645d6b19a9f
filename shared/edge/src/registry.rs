//! Every function of the plane: its name, what triggers it, and what it does to whom.
//!
//! The local router mounts from this list, the access test walks through it, and the template and the API
//! document are checked against it.

use crate::http::{Handler, events, sandboxes};
use domain::access::Scope;
use http::Method;

/// One function: on Lambda a binary of this name.
#[derive(Debug, Clone)]
pub struct Function {
    /// Group and verb: `events-ingest`.
    pub name: &'static str,
    /// What starts it.
    pub trigger: Trigger,
    /// What it does.
    pub scope: Scope,
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
    TableStream,
}

/// A method and a path with `{parameters}`.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// What answers.
    pub handler: Handler,
}

/// The list.
pub static FUNCTIONS: &[Function] = &[
    http("sandboxes-health", Method::GET, "/api/v1/sandboxes/health", Scope::Public, sandboxes::HEALTH),
    http("sandboxes-list", Method::GET, "/api/v1/sandboxes", Scope::ListSandboxes, sandboxes::LIST),
    http(
        "sandboxes-register",
        Method::POST,
        "/api/v1/sandboxes",
        Scope::ManageSandboxes,
        sandboxes::REGISTER,
    ),
    http("sandboxes-get", Method::GET, "/api/v1/sandboxes/{id}", Scope::ReadSandbox, sandboxes::GET),
    http(
        "sandboxes-rotate-token",
        Method::POST,
        "/api/v1/sandboxes/{id}/token",
        Scope::ManageSandboxes,
        sandboxes::ROTATE_TOKEN,
    ),
    http("events-ingest", Method::POST, "/api/v1/sandboxes/{id}/events", Scope::WriteEvents, events::INGEST),
    http("events-list", Method::GET, "/api/v1/sandboxes/{id}/events", Scope::ReadSandbox, events::LIST),
    http(
        "events-body",
        Method::GET,
        "/api/v1/sandboxes/{id}/events/{seq}/body",
        Scope::ReadSandbox,
        events::BODY,
    ),
    http(
        "events-trajectory",
        Method::GET,
        "/api/v1/sandboxes/{id}/trajectory",
        Scope::ReadSandbox,
        events::TRAJECTORY,
    ),
    other("realtime-connect", Trigger::SocketConnect, Scope::OpenSocket),
    other("realtime-frame", Trigger::SocketFrame, Scope::OpenSocket),
    other("realtime-disconnect", Trigger::SocketDisconnect, Scope::OpenSocket),
    other("events-broadcast", Trigger::TableStream, Scope::OpenSocket),
];

const fn http(
    name: &'static str,
    method: Method,
    path: &'static str,
    scope: Scope,
    handler: Handler,
) -> Function {
    Function { name, trigger: Trigger::Http(Route { method, path, handler }), scope }
}

const fn other(name: &'static str, trigger: Trigger, scope: Scope) -> Function {
    Function { name, trigger, scope }
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

/// The seeds' singular spellings are aliases: `/api/v1/sandbox/{id}/message` is `/api/v1/sandboxes/{id}/messages`.
pub fn canonical(path: &str) -> String {
    let path = path.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(path);
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
        assert_eq!(canonical("/api/v1/sandbox/s-1/message"), "/api/v1/sandboxes/s-1/messages");
        assert_eq!(canonical("/api/v1/sandbox/s-1/ws"), "/api/v1/sandboxes/s-1/ws");
        assert_eq!(canonical("/"), "/");
    }

    #[test]
    fn a_wrong_method_is_not_a_wrong_path() {
        assert_eq!(name(Method::DELETE, "/api/v1/sandboxes/s-1/events"), Err(NoMatch::Method));
        assert_eq!(name(Method::POST, "/api/v1/sandboxes/health"), Err(NoMatch::Method));
        assert_eq!(name(Method::GET, "/api/v1/nothing"), Err(NoMatch::Path));
        assert_eq!(name(Method::GET, "/api/v1/sandboxes//events"), Err(NoMatch::Path));
    }
}
