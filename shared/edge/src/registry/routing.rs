//! Which function a request belongs to.

use super::{FUNCTIONS, Function, Route, Trigger};
use http::Method;

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
