//! Repositories at each code host, and commits in them.

use code_hosts::local::Local;
use code_hosts::{CODE_HOSTS, CodeHost, Environment, Failure, NewPullRequest, PullRequest, Reason};
use kit::github::{App, GitHub, Options, Token};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const TOKEN: &str = "ghp_planted";
pub const NAME: &str = "acme/shop";
const APP_ID: u64 = 7;

/// The code hosts that fulfil the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    LocalBare,
    LocalTree,
    GitHubToken,
    GitHubApp,
}

/// A repository at a code host, and a clone in which a person works.
#[derive(Debug)]
pub struct Fixture {
    pub kind: Kind,
    pub host: Arc<dyn CodeHost>,
    /// Where the repository really is.
    pub repository: Git,
    pub clone: Git,
    pub fake: Option<GitHub>,
    pub variables: BTreeMap<&'static str, String>,
    folder: TempDir,
}

impl Fixture {
    /// A repository with one commit on `main`: `README.md` and `lines`, with 30 lines.
    pub async fn new(kind: Kind) -> Self {
        Self::with_options(kind, Options::default()).await
    }

    pub async fn with_options(kind: Kind, options: Options) -> Self {
        let fixture = Self::empty(kind, options).await;
        let lines: String = (1..=30).map(|number| format!("line {number}\n")).collect();
        fixture.clone.run(&["checkout", "--quiet", "-b", "main"]);
        fixture.clone.write("lines", &lines);
        fixture.clone.commit(&[("README.md", "Shop\n")], "Begin");
        if kind == Kind::LocalTree {
            fixture.repository.run(&["pull", "--quiet", &fixture.clone.path(), "main"]);
        } else {
            fixture.clone.run(&["push", "--quiet", "origin", "main"]);
        }
        fixture.clone.run(&["fetch", "--quiet", "origin"]);
        fixture
    }

    /// A repository without a commit.
    pub async fn empty(kind: Kind, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut fake = None;
        let directory = match kind {
            Kind::LocalBare | Kind::LocalTree => folder.path().join("repository"),
            Kind::GitHubToken | Kind::GitHubApp => {
                fake.insert(GitHub::start(options).await).create_repository(NAME)
            }
        };
        let repository = Git(directory);
        match kind {
            Kind::LocalBare => {
                git(folder.path(), &["init", "--quiet", "--bare", "-b", "main", &repository.path()])
            }
            Kind::LocalTree => git(folder.path(), &["init", "--quiet", "-b", "main", &repository.path()]),
            Kind::GitHubToken | Kind::GitHubApp => String::new(),
        };
        let clone = Git(folder.path().join("clone"));
        git(folder.path(), &["clone", "--quiet", &repository.path(), &clone.path()]);
        let (host, variables) = match &fake {
            Some(fake) => {
                let variables = variables(kind, fake);
                (open(fake, &variables), variables)
            }
            None => (local(&repository.0), BTreeMap::new()),
        };
        Self { kind, host, repository, clone, fake, variables, folder }
    }

    pub fn fake(&self) -> &GitHub {
        self.fake.as_ref().unwrap()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The same repository as another process opens it.
    pub fn reopened(&self) -> Arc<dyn CodeHost> {
        self.fake.as_ref().map_or_else(|| local(&self.repository.0), |fake| open(fake, &self.variables))
    }

    /// The commit of a branch, read with git.
    pub fn commit(&self, branch: &str) -> String {
        self.repository.run(&["rev-parse", &format!("refs/heads/{branch}")])
    }

    /// Commits files on a branch that starts at `main` of the host, and pushes it.
    pub fn push(&self, branch: &str, files: &[(&str, &str)], message: &str) -> String {
        self.clone.run(&["fetch", "--quiet", "origin"]);
        if self.clone.find(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).is_none() {
            self.clone.run(&["branch", "--no-track", branch, "origin/main"]);
        }
        self.clone.run(&["checkout", "--quiet", branch]);
        let commit = self.clone.commit(files, message);
        self.clone.run(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{branch}")]);
        commit
    }

    /// Commits files on `main` of the host.
    pub fn push_main(&self, files: &[(&str, &str)], message: &str) -> String {
        if self.kind == Kind::LocalTree {
            return self.repository.commit(files, message);
        }
        self.clone.run(&["fetch", "--quiet", "origin"]);
        self.clone.run(&["checkout", "--quiet", "-B", "main", "origin/main"]);
        let commit = self.clone.commit(files, message);
        self.clone.run(&["push", "--quiet", "origin", "main"]);
        commit
    }

    /// The pull request of a branch.
    pub async fn propose(&self, branch: &str) -> PullRequest {
        self.host.propose(&request(branch)).await.unwrap()
    }
}

pub fn request(branch: &str) -> NewPullRequest {
    NewPullRequest {
        branch: branch.to_owned(),
        base: "main".to_owned(),
        title: format!("Work of {branch}"),
        body: "What was done.".to_owned(),
    }
}

fn variables(kind: Kind, fake: &GitHub) -> BTreeMap<&'static str, String> {
    let mut variables = BTreeMap::from([("GITHUB_HOST", fake.host())]);
    if kind == Kind::GitHubApp {
        let app = App::new(APP_ID, &[NAME]);
        variables.insert("GITHUB_APP_ID", APP_ID.to_string());
        variables.insert("GITHUB_APP_PRIVATE_KEY", app.private_key().to_owned());
        fake.install(app);
    } else {
        fake.allow(Token::new(TOKEN));
        variables.insert("GITHUB_TOKEN", TOKEN.to_owned());
    }
    variables
}

/// Does not wait long for what a host computes.
pub fn environment(fake: &GitHub) -> Environment {
    let mut environment = Environment::new(fake.clock());
    environment.poll_delay = Duration::from_millis(1);
    environment
}

pub fn open(fake: &GitHub, variables: &BTreeMap<&'static str, String>) -> Arc<dyn CodeHost> {
    open_in(&environment(fake), fake, variables).unwrap()
}

/// Opens the repository as the plane does: by the list of kinds.
pub fn open_in(
    environment: &Environment,
    fake: &GitHub,
    variables: &BTreeMap<&'static str, String>,
) -> Result<Arc<dyn CodeHost>, Failure> {
    let value = |name: &str| variables.get(name).cloned();
    let address = fake.repository_url(NAME);
    let found = CODE_HOSTS.iter().find_map(|kind| (kind.open)(&address, &value, environment).transpose());
    found.expect("a code host serves the address")
}

pub fn local(directory: &Path) -> Arc<dyn CodeHost> {
    Arc::new(Local::new(directory, &Environment::new(Arc::new(|| 0))))
}

/// The failure of a call, which must have this reason and say something.
#[track_caller]
pub fn failed<T: Debug>(result: Result<T, Failure>, reason: Reason) -> Failure {
    let failure = result.expect_err("the call fails");
    assert_eq!(failure.reason, reason, "{failure}");
    assert!(!failure.message.is_empty() && failure.reason.remedy().ends_with('.'));
    failure
}

/// A repository in a directory.
#[derive(Debug, Clone)]
pub struct Git(pub PathBuf);

impl Git {
    pub fn path(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        git(&self.0, arguments)
    }

    /// The output; `None` if the command fails.
    pub fn find(&self, arguments: &[&str]) -> Option<String> {
        try_git(&self.0, arguments).ok()
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }

    /// Commits these files, and everything else that has changed.
    pub fn commit(&self, files: &[(&str, &str)], message: &str) -> String {
        for (file, text) in files {
            self.write(file, text);
        }
        self.run(&["add", "--all"]);
        self.run(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.run(&["rev-parse", "HEAD"])
    }

    /// Subjects of the commits, newest first, along the first parents.
    pub fn subjects(&self, branch: &str) -> Vec<String> {
        self.run(&["log", "--first-parent", "--format=%s", branch]).lines().map(str::to_owned).collect()
    }

    pub fn parents(&self, commit: &str) -> Vec<String> {
        self.run(&["log", "-1", "--format=%P", commit]).split(' ').map(str::to_owned).collect()
    }

    /// All refs with their objects.
    pub fn refs(&self) -> String {
        self.run(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    try_git(directory, arguments).unwrap_or_else(|error| panic!("git {arguments:?}: {error}"))
}

fn try_git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(directory);
    // Hooks and settings of this machine do not matter here.
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.test");
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
