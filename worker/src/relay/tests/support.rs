//! A relay that is served on the loopback, with the repository of its host.

use super::super::{Relay, Service, Settings, Source};
use crate::event::Event;
use crate::network::GIT;
use crate::workspace::Origin;
use egress::endpoint::{Endpoints, Form, Handled, Key};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) const BRANCH: &str = "feature/x";

/// A folder with the repository `host.git` of one commit on `main`.
pub(crate) struct Host {
    pub folder: TempDir,
}

/// Runs git as a person would.
pub(crate) fn run_git(folder: &Path, arguments: &[&str]) -> Output {
    let identity =
        ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"];
    Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap()
}

impl Host {
    pub(crate) fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        host.git("", &["init", "--quiet", "--bare", "host.git"]);
        host.git("", &["clone", "--quiet", "host.git", "person"]);
        host.commit("person", "README");
        host.git("person", &["push", "--quiet", "origin", "HEAD:main"]);
        host
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The address of the repository, as a directory.
    pub(crate) fn address(&self) -> String {
        self.path("host.git").display().to_string()
    }

    pub(crate) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let output = run_git(&self.path(folder), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A commit that changes one file of this name.
    pub(crate) fn commit(&self, folder: &str, name: &str) -> String {
        std::fs::write(self.path(folder).join(name), name).unwrap();
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "--quiet", "-m", name]);
        self.git(folder, &["rev-parse", "HEAD"])
    }

    /// The commit of a branch at the host.
    pub(crate) fn branch(&self, name: &str) -> Option<String> {
        let output = run_git(&self.path("host.git"), &["rev-parse", "--verify", "--quiet", name]);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// All references at the host.
    pub(crate) fn references(&self) -> String {
        self.git("host.git", &["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    pub(crate) fn settings(&self, url: &str) -> Settings {
        Settings {
            state: self.path("state"),
            url: url.to_owned(),
            branch: BRANCH.to_owned(),
            source: Source::None,
            environment: crate::config::environment(),
            proxy: None,
            allows_ssh: false,
            retry_delay: Duration::from_millis(1),
        }
    }

    pub(crate) async fn serve(&self) -> Served {
        Served::start(self.settings(&self.address())).await
    }
}

/// A relay and its server. Both end when it is dropped.
pub(crate) struct Served {
    pub relay: Relay,
    pub origin: Origin,
    /// Environment of the agent's git.
    pub variables: Vec<(String, String)>,
    events: Arc<Mutex<Vec<Event>>>,
    tasks: JoinSet<()>,
}

impl Served {
    pub(crate) async fn start(settings: Settings) -> Self {
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let emitted = events.clone();
        let host = settings.url.clone();
        let relay = Relay::new(settings, Arc::new(move |event| emitted.lock().unwrap().push(event)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{GIT}", listener.local_addr().unwrap());
        let form = Form::Basic { user: "agent".to_owned() };
        let header = format!("Authorization: {}", form.value("worthless"));
        let variables = [
            ("GIT_CONFIG_COUNT", "2".to_owned()),
            ("GIT_CONFIG_KEY_0", format!("http.{url}.extraHeader")),
            ("GIT_CONFIG_VALUE_0", header),
            ("GIT_CONFIG_KEY_1", format!("url.{url}.insteadOf")),
            ("GIT_CONFIG_VALUE_1", host),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let handler = Arc::new(Service::new(relay.clone(), GIT));
        let key = Key::new(form, "worthless", "worthless").unwrap();
        let endpoints = Endpoints::new(Vec::new()).unwrap();
        let endpoints = endpoints.with_handled([Handled { prefix: GIT.to_owned(), key, handler }]);
        let mut tasks = JoinSet::new();
        tasks.spawn(endpoints.serve(listener));
        let origin = Origin { relay: relay.clone(), url };
        Self { relay, origin, variables, events, tasks }
    }

    /// Starts to push the branch of the task to the host.
    pub(crate) fn push_to_host(&mut self) {
        self.tasks.spawn(self.relay.clone().run());
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs git as the agent does, without blocking the server.
    pub(crate) async fn agent(&self, folder: &Path, arguments: &[&str]) -> Output {
        let identity = ["-c", "user.name=Agent", "-c", "user.email=agent@example.invalid"];
        let mut command = tokio::process::Command::new("git");
        command.args(identity).args(arguments).current_dir(folder).envs(self.variables.iter().cloned());
        command.output().await.unwrap()
    }

    /// Runs git as the agent does, and returns its standard output.
    pub(crate) async fn agent_text(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.agent(folder, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}
