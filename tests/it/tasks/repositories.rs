//! Repositories and branches to choose from, at GitHub and on the machine of the plane.

use super::TaskApi;
use crate::support::OPERATOR;
use app::orchestration::WorkerVariables;
use kit::git::Repository;
use kit::github::{Fault, Faults, GitHub, Operation, Options, Token};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const TOKEN: &str = "planted-token";

/// A plane with a token for the repositories of acme, and a directory with a repository.
struct Setup {
    plane: TaskApi,
    github: GitHub,
    folder: TempDir,
}

impl Setup {
    async fn new() -> Self {
        let github = GitHub::start(Options::default()).await;
        github.allow(Token::new(TOKEN));
        for name in ["acme/docs", "acme/shop", "other/shop"] {
            github.create_repository(name);
        }
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("projects/shop/.git")).unwrap();
        let (host, scope) = (github.host(), "acme/*".to_owned());
        let variables =
            [("GITHUB_TOKEN", TOKEN.to_owned()), ("GITHUB_HOST", host), ("GITHUB_REPOSITORIES", scope)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let plane = TaskApi::open_in(vec![folder.path().to_owned()], |settings| {
            settings.orchestration.worker_variables = WorkerVariables::shared(variables);
        });
        Self { plane: plane.await, github, folder }
    }

    async fn list(&self, token: &str, query: &str) -> (u64, Value) {
        self.plane.call(token, "GET", &format!("/repositories{query}"), None).await
    }

    /// Names of repositories on all pages.
    async fn names(&self, token: &str, query: &str) -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, page) = self.list(token, &format!("?query={query}{cursor}")).await;
            assert_eq!(status, 200, "{page}");
            let found = page["repositories"].as_array().unwrap().iter();
            names.extend(found.map(|found| found["repository"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return names,
            }
        }
    }

    fn url(&self, name: &str) -> String {
        self.github.repository_url(name)
    }

    fn path(&self, below: &str) -> String {
        self.folder.path().canonicalize().unwrap().join(below).display().to_string()
    }
}

#[tokio::test]
async fn repositories_that_a_ticket_can_name_are_listed() {
    let setup = Setup::new().await;
    let member = setup.plane.member.clone();
    assert_eq!(setup.names(&member, "").await, [setup.url("acme/docs"), setup.url("acme/shop")]);
    assert_eq!(setup.names(&member, "shop").await, [setup.url("acme/shop")]);
    let with_machine = setup.names(OPERATOR, "shop").await;
    assert_eq!(with_machine, [setup.path("projects/shop"), setup.url("acme/shop")]);
}

#[tokio::test]
async fn only_operators_see_directories_of_the_machine() {
    let setup = Setup::new().await;
    let typed = format!("{}/", setup.path("projects"));
    assert_eq!(setup.names(OPERATOR, &typed).await, [setup.path("projects/shop")]);
    assert_eq!(setup.names(&setup.plane.member.clone(), &typed).await, [""; 0]);
    let path = setup.path("projects/shop");
    let query = format!("/repositories/branches?repository={path}");
    let (status, refused) = setup.plane.call(&setup.plane.member.clone(), "GET", &query, None).await;
    assert_eq!((status, &refused["field"]), (422, &json!("repository")), "{refused}");
}

#[tokio::test]
async fn code_host_that_fails_hides_no_other() {
    let setup = Setup::new().await;
    let down = || Faults::none().once(Operation::UserRepositories, Fault::Error);
    setup.github.set_faults(down());
    let (status, page) = setup.list(OPERATOR, "?query=nothing-has-this-name").await;
    assert_eq!((status, &page["unavailable"][0]["code_host"]), (200, &json!("github")), "{page}");
    setup.github.set_faults(down());
    let (status, refused) = setup.list(&setup.plane.member.clone(), "").await;
    assert_eq!(status, 503, "{refused}");
}

#[tokio::test]
async fn branches_are_listed_with_the_default_one_first() {
    let setup = Setup::new().await;
    let repository = Repository::with_one_commit();
    for branch in ["develop", "a-fix", "b-fix"] {
        repository.git(&["branch", branch]);
    }
    let names = async |query: &str| -> Vec<String> {
        let path = format!("/repositories/branches?repository={}{query}", repository.path().display());
        let (status, found) = setup.plane.call(OPERATOR, "GET", &path, None).await;
        assert_eq!((status, &found["default_branch"]), (200, &json!("main")), "{found}");
        let branches = found["branches"].as_array().unwrap().iter();
        branches.map(|branch| branch["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("").await, ["main", "a-fix", "b-fix", "develop"]);
    assert_eq!(names("&query=FIX").await, ["a-fix", "b-fix"]);
}

#[tokio::test]
async fn requests_that_cannot_be_answered_say_why() {
    let setup = Setup::new().await;
    for (path, field) in [
        ("/repositories?cursor=elsewhere", "cursor"),
        ("/repositories?cursor=github:x", "cursor"),
        ("/repositories/branches", "repository"),
        ("/repositories/branches?repository=not-a-repository", "repository"),
    ] {
        let (status, refused) = setup.plane.call(&setup.plane.member.clone(), "GET", path, None).await;
        assert_eq!((status, &refused["field"]), (422, &json!(field)), "{path}: {refused}");
    }
    let elsewhere = "/repositories/branches?repository=https://git.example/a/b";
    let (status, refused) = setup.plane.call(&setup.plane.member.clone(), "GET", elsewhere, None).await;
    assert_eq!((status, &refused["code"]), (409, &json!("no_repository")), "{refused}");
    let empty = format!("/repositories/branches?repository={}", setup.url("acme/docs"));
    let (status, refused) = setup.plane.call(&setup.plane.member.clone(), "GET", &empty, None).await;
    assert_eq!((status, &refused["reason"]), (409, &json!("repository_empty")), "{refused}");
}
