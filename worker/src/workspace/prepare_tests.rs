use super::*;
use kit::git_server::Server;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

struct World {
    folder: TempDir,
    told: Vec<Event>,
}

fn git(folder: &Path, arguments: &[&str]) -> Output {
    let identity =
        ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"];
    Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap()
}

impl World {
    /// With a repository `remote.git` of one commit on `main` and one more on `topic`.
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap(), told: Vec::new() };
        let seed = world.path("seed");
        fs::create_dir(&seed).unwrap();
        world.git("seed", &["init", "--quiet"]);
        fs::write(seed.join("README"), "hello\n").unwrap();
        world.git("seed", &["add", "-A"]);
        world.git("seed", &["commit", "--quiet", "-m", "first"]);
        world.git("seed", &["checkout", "--quiet", "-b", "topic"]);
        world.git("seed", &["commit", "--quiet", "--allow-empty", "-m", "second"]);
        world.git("seed", &["checkout", "--quiet", "main"]);
        world.git("", &["clone", "--quiet", "--bare", "seed", "remote.git"]);
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let output = git(&self.path(folder), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn settings(&self) -> Settings {
        let settings = Settings::new(
            self.path("root"),
            self.path("state"),
            vec![self.path("helper").display().to_string()],
        );
        Settings { first_wait: Duration::from_millis(1), ..settings }
    }

    async fn prepare(&mut self, url: &str, branch: Option<&str>) -> Result<Ready, Error> {
        let repository = Repository::new(url, None, branch).unwrap();
        self.prepare_from(&repository).await
    }

    async fn prepare_from(&mut self, repository: &Repository) -> Result<Ready, Error> {
        let settings = self.settings();
        prepare(Some(repository), &settings, &mut |event| self.told.push(event)).await
    }

    fn remote(&self) -> String {
        self.path("remote.git").to_string_lossy().into_owned()
    }

    fn types(&self) -> Vec<&str> {
        self.told.iter().map(|event| event.event_type.as_str()).collect()
    }
}

#[tokio::test]
async fn a_clone_is_on_the_default_branch_with_an_identity() {
    let mut world = World::new();
    let ready = world.prepare(&world.remote(), None).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("main"), false));
    assert_eq!(ready.head.unwrap(), world.git("seed", &["rev-parse", "main"]));
    assert_eq!(world.git("root", &["log", "-1", "--format=%s"]), "first");
    assert_eq!(world.git("root", &["config", "--local", "user.email"]), "agent@sunaba.invalid");
    assert_eq!(world.types(), ["workspace.cloning", "workspace.ready"]);
    assert_eq!(world.told[1].data["branch"], "main");
    // Again, as after a restart: nothing is fetched, and work is kept.
    fs::write(world.path("root/new"), "x").unwrap();
    fs::remove_dir_all(world.path("remote.git")).unwrap();
    world.prepare(&world.remote(), Some("main")).await.unwrap();
    assert!(world.path("root/new").exists());
}

#[tokio::test]
async fn a_branch_that_is_there_is_followed_and_one_that_is_not_is_made() {
    let mut world = World::new();
    let ready = world.prepare(&world.remote(), Some("topic")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("topic"), false));
    assert_eq!(world.git("root", &["rev-parse", "--abbrev-ref", "topic@{upstream}"]), "origin/topic");
    let ready = world.prepare(&world.remote(), Some("feature/new")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.created_branch), (Some("feature/new"), true));
    assert_eq!(ready.head.unwrap(), world.git("seed", &["rev-parse", "main"]), "from the default branch");
    assert!(!git(&world.path("root"), &["rev-parse", "feature/new@{upstream}"]).status.success());
    // A branch that somebody else made meanwhile.
    world.git("remote.git", &["branch", "later", "topic"]);
    let ready = world.prepare(&world.remote(), Some("later")).await.unwrap();
    assert!(!ready.created_branch && ready.head.unwrap() == world.git("seed", &["rev-parse", "topic"]));
}

#[tokio::test]
async fn an_empty_repository_can_be_worked_on() {
    let mut world = World::new();
    world.git("", &["init", "--quiet", "--bare", "empty.git"]);
    let url = world.path("empty.git").to_string_lossy().into_owned();
    let ready = world.prepare(&url, Some("begin")).await.unwrap();
    assert_eq!((ready.branch.as_deref(), ready.head, ready.created_branch), (Some("begin"), None, true));
}

#[tokio::test]
async fn a_failed_clone_is_an_error_and_leaves_nothing_that_looks_like_a_workspace() {
    let mut world = World::new();
    let error = world.prepare("/nowhere/at/all.git", None).await.unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(world.types(), ["workspace.cloning", "workspace.failed"]);
    assert_eq!(world.told[1].data["error"], error.to_string());
    assert!(fs::read_dir(world.path("root")).unwrap().next().is_none());
    // And it can be tried again.
    world.prepare(&world.remote(), None).await.unwrap();
}

#[tokio::test]
async fn files_without_a_repository_are_not_mixed_with_one() {
    let mut world = World::new();
    fs::create_dir(world.path("root")).unwrap();
    fs::write(world.path("root/mine"), "x").unwrap();
    let error = world.prepare(&world.remote(), None).await.unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
    assert!(world.path("root/mine").exists());
}

#[tokio::test]
async fn half_a_clone_is_not_taken_for_a_whole_one() {
    let mut world = World::new();
    let settings = world.settings();
    fs::create_dir_all(settings.root.join(".git/objects")).unwrap();
    fs::create_dir_all(&settings.state).unwrap();
    fs::write(settings.state.join("cloning"), settings.root.to_string_lossy().as_bytes()).unwrap();
    let ready = world.prepare(&world.remote(), None).await.unwrap();
    assert_eq!(ready.branch.as_deref(), Some("main"));
    assert!(!settings.state.join("cloning").exists());
}

#[tokio::test]
async fn without_a_repository_there_is_a_folder() {
    let world = World::new();
    let mut told = Vec::new();
    prepare(None, &world.settings(), &mut |event| told.push(event)).await.unwrap();
    assert!(world.path("root").is_dir());
    assert!(told.is_empty(), "no code was fetched: {told:?}");
}

/// Speaks to the socket as `credential::ask` does, which has its own test: the binary is not built here.
const HELPER: &str = r#"#!/usr/bin/env python3
import os, socket, sys
if sys.argv[1:] == ["credential", "get"]:
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(os.environ["SUNABA_CREDENTIALS"])
    stream.sendall(sys.stdin.buffer.read())
    stream.shutdown(socket.SHUT_WR)
    while chunk := stream.recv(4096):
        sys.stdout.buffer.write(chunk)
"#;

/// Written by another process: a program that somebody still has open for writing cannot be run.
fn plant_helper(world: &World) {
    let write = r#"printf %s "$1" > "$2" && chmod 700 "$2""#;
    let written = Command::new("sh").args(["-c", write, "sh", HELPER]).arg(world.path("helper")).status();
    assert!(written.unwrap().success());
}

#[tokio::test]
async fn a_private_repository_is_cloned_and_pushed_to_and_its_token_is_nowhere() {
    let mut world = World::new();
    plant_helper(&world);
    world.git("remote.git", &["config", "http.receivepack", "true"]);
    let server = Server::start(world.folder.path(), "x-access-token:planted-secret").await;
    let url = server.url("remote.git");
    let token = Some(crate::secret::Secret::new("planted-secret"));
    let repository = Repository::new(&url, token, Some("work")).unwrap();
    let ready = world.prepare_from(&repository).await.unwrap();
    assert!(ready.created_branch);

    // The agent's git, with what the agent is given.
    let push = ["push", "--quiet", "-u", "origin", "work"];
    let push = tokio::process::Command::new("git")
        .args(push)
        .current_dir(world.path("root"))
        .envs(ready.variables.iter().cloned())
        .output();
    let pushed = push.await.unwrap();
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    assert_eq!(world.git("remote.git", &["rev-parse", "work"]), ready.head.clone().unwrap());
    assert!(server.refused() > 0, "the server asks for the token");

    assert!(!format!("{ready:?} {:?}", world.told).contains("planted"));
    let found = Command::new("grep")
        .args(["-r", "-l", "-a", "planted"])
        .args([world.path("root"), world.path("state")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the token is on disk");
}

#[tokio::test]
async fn a_wrong_token_is_told_without_it_and_not_tried_again() {
    let mut world = World::new();
    plant_helper(&world);
    let server = Server::start(world.folder.path(), "x-access-token:right").await;
    let url = server.url("remote.git");
    let token = Some(crate::secret::Secret::new("planted-wrong"));
    let error = world.prepare_from(&Repository::new(&url, token, None).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("Authentication failed"), "{error}");
    assert!(!format!("{error:?} {:?}", world.told).contains("planted"));
    assert!(server.refused() <= 2, "{} requests", server.refused());
}

#[tokio::test]
async fn a_network_that_fails_is_tried_again() {
    let mut world = World::new();
    let server = Server::start(world.folder.path(), "").await;
    server.break_next(2);
    let url = server.url("remote.git");
    world.prepare(&url, None).await.unwrap();
    assert_eq!(world.types(), ["workspace.cloning", "workspace.ready"]);
}
