use super::*;
use crate::relay::Source;
use crate::relay::tests::support::{Served, run_git as git};
use kit::git_server::Server;
use std::fs;
use tempfile::TempDir;

struct Fixture {
    dir: TempDir,
    events: Vec<Event>,
    /// See [`Settings::variables`].
    variables: Vec<(String, String)>,
}

impl Fixture {
    /// With a repository `remote.git` of one commit on `main` and one more on `topic`.
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap(), events: Vec::new(), variables: Vec::new() };
        let seed = fixture.path("seed");
        fs::create_dir(&seed).unwrap();
        fixture.git("seed", &["init", "--quiet"]);
        fs::write(seed.join("README"), "hello\n").unwrap();
        fixture.git("seed", &["add", "-A"]);
        fixture.git("seed", &["commit", "--quiet", "-m", "first"]);
        fixture.git("seed", &["checkout", "--quiet", "-b", "topic"]);
        fixture.git("seed", &["commit", "--quiet", "--allow-empty", "-m", "second"]);
        fixture.git("seed", &["checkout", "--quiet", "main"]);
        fixture.git("", &["clone", "--quiet", "--bare", "seed", "remote.git"]);
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn git(&self, dir: &str, arguments: &[&str]) -> String {
        let output = git(&self.path(dir), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn settings(&self) -> Settings {
        let settings = Settings::new(
            self.path("root"),
            self.path("state"),
            self.variables.clone(),
            &crate::confinement::unconfined(),
        );
        Settings { retry_delay: Duration::from_millis(1), ..settings }
    }

    async fn prepare(&mut self, url: &str, branch: Option<&str>) -> Result<Ready, Error> {
        self.prepare_from(&Repository::new(url, None, branch).unwrap()).await
    }

    async fn prepare_from(&mut self, repository: &Repository) -> Result<Ready, Error> {
        let served = Served::start(relay::Settings {
            state: self.path("state"),
            url: repository.url.clone(),
            branch: repository.branch.clone().unwrap_or_else(|| "of-the-task".to_owned()),
            source: Source::None,
            environment: crate::config::environment(),
            proxy: None,
            allows_ssh: false,
            retry_delay: Duration::from_millis(1),
        })
        .await;
        self.variables.clone_from(&served.variables);
        let settings = self.settings();
        let repository = Some((repository, &served.origin));
        prepare(repository, &settings, &mut |event| self.events.push(event)).await
    }

    fn remote(&self) -> String {
        self.path("remote.git").to_string_lossy().into_owned()
    }

    fn types(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.event_type.as_str()).collect()
    }
}

#[tokio::test]
async fn clone_is_on_the_default_branch_with_an_identity() {
    let mut fixture = Fixture::new();
    let ready = fixture.prepare(&fixture.remote(), None).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("main"), false));
    assert_eq!(ready.head.unwrap(), fixture.git("seed", &["rev-parse", "main"]));
    assert_eq!(fixture.git("root", &["log", "-1", "--format=%s"]), "first");
    assert_eq!(fixture.git("root", &["config", "--local", "user.email"]), "agent@sunaba.invalid");
    assert_eq!(fixture.types(), ["workspace.cloning", "workspace.ready"]);
    assert_eq!(fixture.events[1].data["branch"], "main");
    // After a restart, nothing is cloned and uncommitted work is kept.
    fs::write(fixture.path("root/new"), "x").unwrap();
    fs::remove_dir_all(fixture.path("remote.git")).unwrap();
    fixture.prepare(&fixture.remote(), Some("main")).await.unwrap();
    assert!(fixture.path("root/new").exists());
}

#[tokio::test]
async fn existing_branch_is_tracked_and_missing_branch_is_created() {
    let mut fixture = Fixture::new();
    let ready = fixture.prepare(&fixture.remote(), Some("topic")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("topic"), false));
    assert_eq!(fixture.git("root", &["rev-parse", "--abbrev-ref", "topic@{upstream}"]), "origin/topic");
    let ready = fixture.prepare(&fixture.remote(), Some("feature/new")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("feature/new"), true));
    assert_eq!(ready.head.unwrap(), fixture.git("seed", &["rev-parse", "main"]), "from the default branch");
    assert!(!git(&fixture.path("root"), &["rev-parse", "feature/new@{upstream}"]).status.success());
    // A branch that was pushed meanwhile.
    fixture.git("remote.git", &["branch", "later", "topic"]);
    let ready = fixture.prepare(&fixture.remote(), Some("later")).await.unwrap();
    assert!(!ready.created_branch && ready.head.unwrap() == fixture.git("seed", &["rev-parse", "topic"]));
}

#[tokio::test]
async fn empty_repository_is_supported() {
    let mut fixture = Fixture::new();
    fixture.git("", &["init", "--quiet", "--bare", "empty.git"]);
    let url = fixture.path("empty.git").to_string_lossy().into_owned();
    let ready = fixture.prepare(&url, Some("begin")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.head, ready.created_branch), (Some("begin"), None, true));
}

#[tokio::test]
async fn failed_clone_leaves_an_empty_directory() {
    let mut fixture = Fixture::new();
    let error = fixture.prepare("/nowhere/at/all.git", None).await.unwrap_err();
    assert!(error.to_string().contains("does not appear to be a git repository"), "{error}");
    assert_eq!(fixture.types(), ["workspace.cloning", "workspace.failed"]);
    assert_eq!(fixture.events[1].data["error"], error.to_string());
    assert!(fs::read_dir(fixture.path("root")).unwrap().next().is_none());
    // A retry succeeds.
    fixture.prepare(&fixture.remote(), None).await.unwrap();
}

#[tokio::test]
async fn clone_into_a_non_empty_directory_is_rejected() {
    let mut fixture = Fixture::new();
    fs::create_dir(fixture.path("root")).unwrap();
    fs::write(fixture.path("root/mine"), "x").unwrap();
    let error = fixture.prepare(&fixture.remote(), None).await.unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
    assert!(fixture.path("root/mine").exists());
}

#[tokio::test]
async fn partial_clone_is_repeated() {
    let mut fixture = Fixture::new();
    let settings = fixture.settings();
    fs::create_dir_all(settings.root.join(".git/objects")).unwrap();
    fs::create_dir_all(&settings.state).unwrap();
    fs::write(settings.state.join("cloning"), settings.root.to_string_lossy().as_bytes()).unwrap();
    let ready = fixture.prepare(&fixture.remote(), None).await.unwrap();
    assert_eq!(ready.branch.as_deref(), Some("main"));
    assert!(!settings.state.join("cloning").exists());
}

#[tokio::test]
async fn branch_of_the_task_begins_with_the_base() {
    let mut fixture = Fixture::new();
    let with_base = |base: &str| {
        let repository = Repository::new(&fixture.remote(), None, Some("feature/new")).unwrap();
        repository.with_base(Some(base)).unwrap()
    };
    let (missing, topic) = (with_base("nowhere"), with_base("topic"));
    let error = fixture.prepare_from(&missing).await.unwrap_err();
    assert!(error.to_string().contains("no branch `nowhere`"), "{error}");
    let ready = fixture.prepare_from(&topic).await.unwrap();
    assert_eq!(ready.head.unwrap(), fixture.git("seed", &["rev-parse", "topic"]));
}

#[tokio::test]
async fn origin_is_the_repository_at_its_host() {
    let mut fixture = Fixture::new();
    fixture.prepare(&fixture.remote(), None).await.unwrap();
    assert_eq!(fixture.git("root", &["config", "remote.origin.url"]), fixture.remote());
    // Another run serves the relay at another address.
    fixture.git("remote.git", &["branch", "later", "topic"]);
    let ready = fixture.prepare(&fixture.remote(), Some("later")).await.unwrap();
    assert_eq!(ready.head.unwrap(), fixture.git("seed", &["rev-parse", "topic"]));
}

#[tokio::test]
async fn empty_directory_without_a_repository_becomes_one() {
    let fixture = Fixture::new();
    let mut events = Vec::new();
    for _ in 0..2 {
        let ready = prepare(None, &fixture.settings(), &mut |event| events.push(event)).await.unwrap();
        assert_eq!(ready.branch.as_deref(), Some("main"));
        assert_eq!(fixture.git("root", &["log", "--format=%an|%s"]), "Sunaba Agent|Begin");
    }
    assert!(events.is_empty(), "nothing was cloned: {events:?}");
}

#[tokio::test]
async fn directory_of_a_person_does_not_become_a_repository() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("root")).unwrap();
    fs::write(fixture.path("root/mine"), "x").unwrap();
    prepare(None, &fixture.settings(), &mut |_| {}).await.unwrap();
    assert!(!fixture.path("root/.git").exists());
}

#[tokio::test]
async fn network_failure_is_retried() {
    let mut fixture = Fixture::new();
    let server = Server::start(fixture.dir.path(), "").await;
    server.break_next(2);
    let url = server.url("remote.git");
    fixture.prepare(&url, None).await.unwrap();
    assert_eq!(fixture.types(), ["workspace.cloning", "workspace.ready"]);
}
