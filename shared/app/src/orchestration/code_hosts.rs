//! The code host of a task's repository.

use super::Orchestration;
use code_hosts::{Catalogue, CodeHost, CodeHostKind, Environment, Failure, Reason};
use contract::repository::{self, TokenScope};
use domain::{OrgId, ProjectId, Task, Ticket};
use std::collections::BTreeMap;
use std::path::PathBuf;
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

/// The repositories of a code host to choose from.
#[derive(Debug)]
pub struct Reachable {
    pub code_host: &'static str,
    /// Fails if a variable cannot be used.
    pub catalogue: Result<Arc<dyn Catalogue>, Failure>,
    /// `None` if no credential is needed.
    scope: Option<TokenScope>,
}

impl Reachable {
    /// Whether the credential is for this repository.
    pub fn covers(&self, address: &str) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.covers(address))
    }
}

impl CodeHosts {
    /// The first kind that serves a repository is used for it.
    pub fn new(kinds: Vec<&'static CodeHostKind>, environment: Environment) -> Self {
        Self { kinds, environment }
    }

    /// Offers the repositories below these directories of the machine to operators.
    #[must_use]
    pub fn offering(mut self, folders: Vec<PathBuf>) -> Self {
        self.environment.folders = folders;
        self
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
        self.named(orchestration, &task.org, task.project.as_ref(), &name)
    }

    /// The repository with this name, with the credentials of an org and a project. `None` as for
    /// [`CodeHosts::repository`].
    ///
    /// # Errors
    /// If a variable of the code host cannot be used. The failure names it.
    pub fn named(
        &self,
        orchestration: &Orchestration,
        org: &OrgId,
        project: Option<&ProjectId>,
        name: &str,
    ) -> Result<Option<Repository>, Failure> {
        let address = repository::parse(name)
            .map_err(|invalid| Failure::new(Reason::Invalid, format!("the repository {invalid}")))?;
        let variables = orchestration.worker_variables.of(org, project);
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
                return Ok(Some(Repository { name: name.to_owned(), address, host }));
            }
        }
        Ok(None)
    }

    /// The code hosts of which an org and a project have a credential. The machine of the plane is one of them, if it is
    /// asked for.
    pub fn reachable(
        &self,
        orchestration: &Orchestration,
        org: &OrgId,
        project: Option<&ProjectId>,
        with_machine: bool,
    ) -> Vec<Reachable> {
        let variables = orchestration.worker_variables.of(org, project);
        let variable = |name: &str| variables.get(name).map(|value| value.trim().to_owned());
        let kinds = self.kinds.iter().filter(|kind| with_machine || !kind.is_of_this_machine);
        let found = kinds.filter_map(|kind| {
            let code_host = kind.name;
            if kind.is_of_this_machine {
                let catalogue = (kind.catalogue)(&variable, &self.environment).transpose()?;
                return Some(Reachable { code_host, catalogue, scope: None });
            }
            let unusable = |why| Failure::new(Reason::Invalid, format!("the scope of the token {why}"));
            let (scope, catalogue) = match TokenScope::of(&variables) {
                Ok(scope) => (Some(scope), (kind.catalogue)(&variable, &self.environment).transpose()?),
                Err(why) => (None, Err(unusable(why))),
            };
            Some(Reachable { code_host, catalogue, scope })
        });
        found.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestration::WorkerVariables;
    use code_hosts::CODE_HOSTS;
    use domain::task::{Execution, Priority};
    use domain::ticket::{NewTask, TaskOptions};
    use domain::{OrgId, TaskId, TicketId, Timestamp};

    fn task(repository: Option<&str>) -> Task {
        let new = NewTask {
            ticket: TicketId::parse("k-1").unwrap(),
            org: OrgId::parse("acme").unwrap(),
            project: None,
            task_type: "implement_feature".into(),
            title: "Count the words".into(),
            description: String::new(),
            phase: "PHASE_IMPLEMENTATION".into(),
            priority: Priority::Medium,
            execution: Execution { repository: repository.map(str::to_owned), ..Execution::default() },
            task_options: TaskOptions::default(),
        };
        new.into_task(TaskId::parse("t-1").unwrap(), Timestamp::from_secs(1))
    }

    #[test]
    fn credential_is_used_only_for_repositories_that_it_covers() {
        let hosts = CodeHosts::new(CODE_HOSTS.to_vec(), Environment::new(Arc::new(|| 0)));
        for (settings, repository, used) in [
            (&[][..], Some("acme/shop"), true),
            (&[], Some("https://github.com/acme/shop.git"), true),
            (&[], Some("https://attacker.example/acme/shop.git"), false),
            (&[], None, false),
            (&[("GITHUB_HOST", "git.example")], Some("https://git.example/acme/shop.git"), true),
            (&[("GITHUB_HOST", "git.example")], Some("acme/shop"), false),
            (&[("GITHUB_HOST", "not a host")], Some("acme/shop"), false),
            (&[("GITHUB_REPOSITORIES", "acme/*")], Some("acme/shop"), true),
            (&[("GITHUB_REPOSITORIES", "acme/*")], Some("other/shop"), false),
        ] {
            let variables = settings.iter().chain(&[("GITHUB_TOKEN", "planted")]);
            let variables =
                variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let worker_variables = WorkerVariables::shared(variables);
            let orchestration = Orchestration { worker_variables, ..Orchestration::default() };
            let found = hosts.repository(&orchestration, &task(repository), None);
            assert_eq!(matches!(found, Ok(Some(_))), used, "{settings:?} {repository:?}: {found:?}");
        }
    }

    #[test]
    fn workers_get_no_credential_of_a_code_host() {
        let hosts = CodeHosts::new(CODE_HOSTS.to_vec(), Environment::new(Arc::new(|| 0)));
        let names = ["GITHUB_TOKEN", "GITHUB_APP_PRIVATE_KEY", "ANTHROPIC_API_KEY"];
        let mut variables = names.map(|name| (name.to_owned(), "planted".to_owned())).into();
        hosts.remove_secrets(&mut variables);
        assert_eq!(variables.into_keys().collect::<Vec<_>>(), ["ANTHROPIC_API_KEY"]);
    }
}
