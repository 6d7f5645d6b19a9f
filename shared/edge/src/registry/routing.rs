//! Resolves a request to a function.

use super::{FUNCTIONS, Function, Route, Trigger};
use http::Method;

#[derive(Debug)]
pub struct Match {
    pub function: &'static Function,
    pub route: &'static Route,
    /// Values of the path parameters, in order, still percent-encoded.
    pub parameters: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMatch {
    Path,
    /// The path exists, but not with this method.
    Method,
}

/// Resolves a request. The match with the fewest parameters wins, so that `/sandboxes/health` is not a sandbox, whatever the
/// order of the list.
pub fn resolve(method: &Method, path: &str) -> Result<Match, NoMatch> {
    let matches = matches(path);
    if matches.is_empty() {
        return Err(NoMatch::Path);
    }
    matches.into_iter().find(|matched| matched.route.method == *method).ok_or(NoMatch::Method)
}

/// The methods that a path supports.
pub fn methods(path: &str) -> Vec<&'static Method> {
    matches(path).into_iter().map(|matched| &matched.route.method).collect()
}

/// The routes of a path, one per method.
fn matches(path: &str) -> Vec<Match> {
    let path = canonical(path);
    let all = FUNCTIONS.iter().filter_map(|function| {
        let Trigger::Http(route) = &function.trigger else { return None };
        Some(Match { function, route, parameters: match_path(route.path, &path)? })
    });
    let mut matches: Vec<Match> = all.collect();
    let fewest = matches.iter().map(|matched| matched.parameters.len()).min();
    matches.retain(|matched| Some(matched.parameters.len()) == fewest);
    matches
}

/// A path and its aliases, for a router such as API Gateway: `/api/v1/sandbox/{id}/…` and `…/message` are aliases.
pub fn spellings(path: &str) -> Vec<String> {
    let alias = path.strip_prefix("/api/v1/sandboxes/").filter(|rest| rest.starts_with('{'));
    let alias = alias.map(|rest| format!("/api/v1/sandbox/{rest}"));
    let singular = alias.as_ref().filter(|alias| alias.ends_with("/messages"));
    let singular = singular.and_then(|alias| alias.strip_suffix('s')).map(str::to_owned);
    let nested = (path == MONITORING).then(|| NESTED_MONITORING.to_owned());
    [Some(path.to_owned()), alias, singular, nested].into_iter().flatten().collect()
}

const MONITORING: &str = "/api/v1/monitoring/status";
/// Alias for OmoiOS clients.
const NESTED_MONITORING: &str = "/api/v1/sandboxes/monitoring/status";

/// Replaces aliases: `/api/v1/sandbox/{id}/message`, as OmoiOS spells it, becomes `/api/v1/sandboxes/{id}/messages`.
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

fn match_path(pattern: &str, path: &str) -> Option<Vec<String>> {
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
        resolve(&method, path).map(|matched| matched.function.name)
    }

    #[test]
    fn every_route_resolves_to_its_function() {
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
    fn function_names_are_unique() {
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
    fn unsupported_method_differs_from_unknown_path() {
        assert_eq!(name(Method::DELETE, "/api/v1/sandboxes/s-1/events"), Err(NoMatch::Method));
        assert_eq!(name(Method::POST, "/api/v1/sandboxes/health"), Err(NoMatch::Method));
        assert_eq!(name(Method::GET, "/api/v1/nothing"), Err(NoMatch::Path));
        assert_eq!(name(Method::GET, "/api/v1/sandboxes//events"), Err(NoMatch::Path));
    }
}
