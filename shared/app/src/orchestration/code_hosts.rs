//! The code host of a task's repository.

use super::Orchestration;
use code_hosts::{CodeHost, CodeHostKind, Environment, Failure, Reason};
use contract::repository::{self, TokenScope};
use domain::{Task, Ticket};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The code hosts that this plane can use.
#[derive(Debug, Clone)]
pub struct CodeHosts {
    kinds: Vec<&'static CodeHostKind>,
    environment: Environment,
}

/// A repository at its code host.
#[derive(Debug, Clone)]
pub struct Repository {
    /// As a request named it.
    pub name: String,
    /// For git, without a credential. Tasks that name the same repository have the same address.
    pub address: String,
    pub host: Arc<dyn CodeHost>,
}

impl CodeHosts {
    /// The first kind that serves a repository is used for it.
    pub fn new(kinds: Vec<&'static CodeHostKind>, environment: Environment) -> Self {
        Self { kinds, environment }
    }

    /// The repository of a task. `None` if it has none, or if this plane has no credential for the host: then its branch
    /// and its pull request are left to others.
    ///
    /// # Errors
    /// If a variable of the code host cannot be used. The failure names it.
    pub fn repository(
        &self,
        orchestration: &Orchestration,
        task: &Task,
        ticket: Option<&Ticket>,
    ) -> Result<Option<Repository>, Failure> {
        let Some(name) = repository_of(task, ticket) else { return Ok(None) };
        let address = repository::parse(&name)
            .map_err(|invalid| Failure::new(Reason::Invalid, format!("the repository {invalid}")))?;
        let variables = orchestration.worker_variables.of(&task.org, task.project.as_ref());
        let scope = TokenScope::of(&variables);
        let covers = scope.is_ok_and(|scope| scope.covers(&address));
        for kind in &self.kinds {
            // Who creates a task chooses the repository, and so the server that would receive the secret.
            let is_secret =
                |name: &str| kind.variables.iter().any(|known| known.secret && known.name == name);
            let variable = |name: &str| {
                variables
                    .get(name)
                    .filter(|_| covers || !is_secret(name))
                    .map(|value| value.trim().to_owned())
            };
            if let Some(host) = (kind.open)(&address, &variable, &self.environment)? {
                return Ok(Some(Repository { name, address, host }));
            }
        }
        Ok(None)
    }

    /// Removes the credentials of code hosts, which workers get for a short time when they ask.
    pub fn remove_secrets(&self, variables: &mut BTreeMap<String, String>) {
        let known = self.kinds.iter().flat_map(|kind| kind.variables).filter(|variable| variable.secret);
        known.for_each(|variable| drop(variables.remove(variable.name)));
    }
}

/// The repository that a task names, or else that of its ticket.
pub fn repository_of(task: &Task, ticket: Option<&Ticket>) -> Option<String> {
    task.execution.repository.clone().or_else(|| ticket.and_then(|ticket| ticket.repository.clone()))
}
