mod bundle;
pub(crate) mod support;

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::payloads::{WorkspacePushFailed, WorkspacePushRejected, WorkspacePushed};
use kit::git_server::Server;
use std::path::Path;
use std::process::Output;
use support::{BRANCH, Host, Served};

const LIMIT: Duration = Duration::from_secs(60);

/// A clone of the agent on the branch of the task.
async fn clone(host: &Host, served: &Served) -> PathBuf {
    let root = host.path("agent");
    served.agent_text(host.folder.path(), &["clone", "--quiet", &served.origin.url, "agent"]).await;
    served.agent_text(&root, &["checkout", "--quiet", "-b", BRANCH]).await;
    root
}

async fn commit(served: &Served, root: &Path, name: &str) -> String {
    std::fs::write(root.join(name), name).unwrap();
    served.agent_text(root, &["add", "-A"]).await;
    served.agent_text(root, &["commit", "--quiet", "-m", name]).await;
    served.agent_text(root, &["rev-parse", "HEAD"]).await
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events<P: contract::payloads::Payload>(served: &Served) -> Vec<P> {
    served.events().iter().filter_map(Event::read).collect()
}

#[tokio::test]
async fn pushed_commits_of_the_task_reach_the_host() {
    let host = Host::new();
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let first = commit(&served, &root, "first").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(first.clone()));
    assert!(served.relay.host_has(&first).await);

    served.agent_text(&root, &["commit", "--quiet", "--amend", "-m", "better"]).await;
    let amended = commit(&served, &root, "second").await;
    assert!(!served.relay.host_has(&amended).await);
    served.agent_text(&root, &["push", "--quiet", "--force", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(amended.clone()), "its own branch may be rewritten");
    let branch = BRANCH.to_owned();
    let expected = [
        WorkspacePushed {
            branch: branch.clone(),
            commit: first.clone(),
            previous_commit: None,
            commits: 1,
            forced: false,
        },
        WorkspacePushed { branch, commit: amended, previous_commit: Some(first), commits: 2, forced: true },
    ];
    assert_eq!(events::<WorkspacePushed>(&served), expected);
}

#[tokio::test]
async fn everything_but_the_branch_of_the_task_is_refused_with_a_reason() {
    let host = Host::new();
    host.git("host.git", &["branch", "other", "main"]);
    host.git("host.git", &["tag", "v1", "main"]);
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let pushed = commit(&served, &root, "work").await;
    served.agent_text(&root, &["tag", "v2"]).await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    let before = host.references();
    let task_branch = format!("refs/heads/{BRANCH}");
    for (arguments, name) in [
        (&["HEAD:refs/heads/main"][..], "refs/heads/main"),
        (&["--force", "HEAD:refs/heads/other"], "refs/heads/other"),
        (&["HEAD:refs/heads/new"], "refs/heads/new"),
        (&[":refs/heads/other"], "refs/heads/other"),
        (&["v2"], "refs/tags/v2"),
        (&["--force", "HEAD:refs/tags/v1"], "refs/tags/v1"),
        (&[":refs/tags/v1"], "refs/tags/v1"),
        (&["HEAD:refs/anything/else"], "refs/anything/else"),
        (&["--delete", BRANCH], &task_branch),
    ] {
        let push = [&["push", "origin"], arguments].concat();
        let output = served.agent(&root, &push).await;
        assert!(!output.status.success(), "{arguments:?}");
        let shown = stderr(&output);
        assert!(shown.contains(&format!("remote: sunaba: {name} is not pushed: ")), "{arguments:?}: {shown}");
        let rejected = events::<WorkspacePushRejected>(&served);
        assert!(rejected.iter().any(|rejected| rejected.ref_name == name), "{arguments:?}: {rejected:?}");
    }
    // The worker's own references cannot be named, seen or guessed.
    let known = format!("refs/sunaba/known/{BRANCH}");
    assert!(
        !served.agent(&root, &["push", "--force", "origin", &format!("main:{known}")]).await.status.success()
    );
    assert!(!served.agent_text(&root, &["ls-remote", "origin"]).await.contains("refs/sunaba"));
    // Neither protocol has another way.
    let version = ["-c", "protocol.version=0"];
    assert!(
        !served
            .agent_text(&root, &[&version[..], &["ls-remote", "origin"]].concat())
            .await
            .contains("sunaba")
    );
    let raw = served.agent(&root, &["push", "--mirror", "origin"]).await;
    assert!(!raw.status.success(), "{}", stderr(&raw));
    assert_eq!(served.relay.at_host().await, Some(pushed));
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.references(), before, "nothing changed at the host");
    assert_eq!(served.relay.0.git.commit("refs/heads/main").await, host.branch("main"));
}

#[tokio::test]
async fn allowed_part_of_a_push_is_accepted() {
    let host = Host::new();
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    let output = served.agent(&root, &["push", "origin", BRANCH, "HEAD:refs/heads/main"]).await;
    assert!(!output.status.success());
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head.clone()));
    assert_ne!(host.branch("main"), Some(head));
}

#[tokio::test]
async fn request_without_the_key_of_the_sandbox_is_rejected() {
    let host = Host::new();
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    let plain = tokio::process::Command::new("git")
        .args(["ls-remote", &served.origin.url])
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .await
        .unwrap();
    assert!(!plain.status.success());
    assert!(!stderr(&plain).contains("main"));
}

/// Git compresses large requests.
#[tokio::test]
async fn fetch_with_many_commits_in_common_works() {
    let host = Host::new();
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    let root = clone(&host, &served).await;
    for number in 0..60 {
        served.agent_text(&root, &["commit", "--quiet", "--allow-empty", "-m", &number.to_string()]).await;
    }
    let new = host.commit("person", "new");
    host.git("person", &["push", "--quiet", "origin", "HEAD:main"]);
    served.relay.fetch().await.unwrap();
    for version in ["0", "2"] {
        let version = format!("protocol.version={version}");
        served.agent_text(&root, &["-c", &version, "fetch", "--quiet", "origin"]).await;
        assert_eq!(served.agent_text(&root, &["rev-parse", "origin/main"]).await, new);
        served.agent_text(&root, &["update-ref", "-d", "refs/remotes/origin/main"]).await;
        served.agent_text(&root, &["gc", "--quiet", "--prune=now"]).await;
    }
}

#[tokio::test]
async fn fetch_of_the_agent_gets_the_base_on_demand() {
    let host = Host::new();
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    let root = clone(&host, &served).await;
    let new = host.commit("person", "new");
    host.git("person", &["push", "--quiet", "origin", "HEAD:main", "HEAD:later"]);
    served.agent_text(&root, &["fetch", "--quiet", "origin"]).await;
    assert_ne!(served.agent_text(&root, &["rev-parse", "origin/main"]).await, new, "fetched a moment ago");
    served.relay.forget_last_fetch().await;
    served.agent_text(&root, &["fetch", "--quiet", "origin"]).await;
    assert_eq!(served.agent_text(&root, &["rev-parse", "origin/main"]).await, new);
    assert_eq!(served.agent_text(&root, &["rev-parse", "origin/later"]).await, new);
    host.git("person", &["push", "--quiet", "origin", ":later"]);
    served.relay.forget_last_fetch().await;
    served.agent_text(&root, &["fetch", "--quiet", "--prune", "origin"]).await;
    assert!(
        !served.agent(&root, &["rev-parse", "--verify", "--quiet", "origin/later"]).await.status.success()
    );
    // The host is gone: the agent works with the last state.
    std::fs::rename(host.path("host.git"), host.path("gone.git")).unwrap();
    served.relay.forget_last_fetch().await;
    served.agent_text(&root, &["fetch", "--quiet", "origin"]).await;
}

#[tokio::test]
async fn commits_that_others_push_to_the_branch_are_not_overwritten() {
    let host = Host::new();
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    host.git("person", &["fetch", "--quiet", "origin"]);
    host.git("person", &["checkout", "--quiet", BRANCH]);
    let of_person = host.commit("person", "review");
    host.git("person", &["push", "--quiet", "origin", BRANCH]);

    commit(&served, &root, "more").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(of_person.clone()));
    let failed = events::<WorkspacePushFailed>(&served);
    assert!(failed[0].error.contains("others have pushed"), "{failed:?}");
    assert!(!failed[0].will_retry);

    // With their commits, the branch can be pushed again.
    served.agent_text(&root, &["pull", "--quiet", "--no-rebase", "--no-edit", &host.address(), BRANCH]).await;
    served.agent_text(&root, &["fetch", "--quiet", &host.path("person").display().to_string(), BRANCH]).await;
    served.agent_text(&root, &["merge", "--quiet", "--no-edit", "FETCH_HEAD"]).await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    let head = served.agent_text(&root, &["rev-parse", "HEAD"]).await;
    assert_eq!(host.branch(BRANCH), Some(head));
    assert!(served.relay.host_has(&of_person).await);
}

#[tokio::test]
async fn branch_follows_the_host_while_the_agent_has_no_further_commits() {
    let host = Host::new();
    host.git("person", &["push", "--quiet", "origin", &format!("HEAD:{BRANCH}")]);
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    assert_eq!(served.relay.head().await, host.branch("main"));
    let new = host.commit("person", "new");
    host.git("person", &["push", "--quiet", "origin", &format!("HEAD:{BRANCH}")]);
    served.relay.fetch().await.unwrap();
    assert_eq!((served.relay.head().await, served.relay.at_host().await), (Some(new.clone()), Some(new)));
}

#[tokio::test]
async fn commits_that_a_killed_worker_left_are_pushed_by_the_next() {
    let host = Host::new();
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    drop(served);
    assert_eq!(host.branch(BRANCH), None);
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
}

#[tokio::test]
async fn push_whose_response_was_lost_is_recognized() {
    let host = Host::new();
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    // As after a push that was applied, whose worker was killed.
    let (relay, branch) = (served.relay.repository(), format!("{BRANCH}:{BRANCH}"));
    host.git("", &["-C", &relay.display().to_string(), "push", "--quiet", &host.address(), &branch]);
    served.push_to_host();
    served.relay.delivered(LIMIT).await;
    assert_eq!(served.relay.at_host().await, Some(head.clone()));
    assert!(events::<WorkspacePushFailed>(&served).is_empty());
    assert_eq!(events::<WorkspacePushed>(&served).len(), 1);
    // And after a restart.
    served.relay.0.git.text(&["update-ref", "-d", &served.relay.known_ref()], LIMIT).await.unwrap();
    served.relay.prepare().await.unwrap();
    assert_eq!(served.relay.at_host().await, Some(head));
}

#[tokio::test]
async fn push_is_repeated_until_the_host_is_back() {
    let host = Host::new();
    host.git("host.git", &["config", "http.receivepack", "true"]);
    let server = Server::start(host.folder.path(), "").await;
    let mut served = Served::start(host.settings(&server.url("host.git"))).await;
    served.relay.prepare().await.unwrap();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    server.break_next(8);
    served.push_to_host();
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
    let failed = events::<WorkspacePushFailed>(&served);
    assert!(failed.iter().all(|failed| failed.will_retry) && !failed.is_empty(), "{failed:?}");
    assert_eq!(served.relay.failure(), None);
}

#[tokio::test]
async fn refused_push_is_reported_and_not_repeated() {
    let host = Host::new();
    // The server serves fetches only.
    let server = Server::start(host.folder.path(), "").await;
    host.git("host.git", &["config", "http.receivepack", "false"]);
    let mut served = Served::start(host.settings(&server.url("host.git"))).await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    let failed = events::<WorkspacePushFailed>(&served);
    assert!(matches!(failed.as_slice(), [only] if !only.will_retry), "{failed:?}");
    assert_eq!(served.relay.failure().map(|failure| failure.will_retry), Some(false));
}

#[tokio::test]
async fn token_is_sent_to_the_host_and_is_nowhere_else() {
    let host = Host::new();
    host.git("host.git", &["config", "http.receivepack", "true"]);
    let server = Server::start(host.folder.path(), "x-access-token:planted-secret").await;
    let url = server.url("host.git");
    let source = Source::Token(crate::secret::Secret::new("planted-secret"));
    let mut served = Served::start(Settings { source, ..host.settings(&url) }).await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
    let shown = format!("{:?} {:?} {:?}", served.events(), served.variables, served.relay);
    // As it is, and as git sends it.
    for form in ["planted", &STANDARD.encode("x-access-token:planted-secret")] {
        assert!(!shown.contains(form), "{shown}");
        for folder in ["state", "agent"] {
            let search = ["grep", "--no-index", "-l", "-a", "-F", form, "--", folder];
            let found = support::run_git(&host.path(""), &search);
            assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the token must not be on disk");
        }
    }
}

#[tokio::test]
async fn rejected_token_is_not_repeated_and_not_shown() {
    let host = Host::new();
    let server = Server::start(host.folder.path(), "x-access-token:right").await;
    for (token, advice) in [(Some("planted-wrong"), "rejected the token"), (None, "set GITHUB_TOKEN")] {
        let refused = server.refused();
        let source = token.map_or(Source::None, |token| Source::Token(crate::secret::Secret::new(token)));
        let served = Served::start(Settings { source, ..host.settings(&server.url("host.git")) }).await;
        let error = served.relay.prepare().await.unwrap_err().to_string();
        assert!(error.contains("Authentication failed") && error.contains(advice), "{error}");
        assert!(!error.contains("planted"));
        assert!(server.refused() - refused <= 2, "{} requests", server.refused());
    }
}

/// A plane that issues one token after another.
async fn plane(url: &str, tokens: Vec<&'static str>) -> (client::SandboxApi, tokio::task::JoinSet<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    let url = url.to_owned();
    tasks.spawn(async move {
        for token in tokens {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            assert!(request.starts_with("POST /api/v1/sandboxes/box/git-access "), "{request}");
            let body = serde_json::json!({"url": url, "username": null, "token": token, "expires_at": null});
            let body = body.to_string();
            let length = body.len();
            let response =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    });
    let sandbox = domain::SandboxId::parse("box").unwrap();
    (client::SandboxApi::new(&format!("http://{address}"), &sandbox, None, LIMIT), tasks)
}

#[tokio::test]
async fn access_of_the_plane_is_replaced_when_the_host_rejects_it() {
    let host = Host::new();
    host.git("host.git", &["config", "http.receivepack", "true"]);
    let server = Server::start(host.folder.path(), "x-access-token:second-token").await;
    // The address of the task does not exist: the plane names the URL.
    let (api, _plane) = plane(&server.url("host.git"), vec!["first-token", "second-token"]).await;
    let settings = Settings { source: Source::Plane(api), ..host.settings("http://127.0.0.1:9/none") };
    let mut served = Served::start(settings).await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
}

#[tokio::test]
async fn hooks_of_a_repository_on_this_machine_do_not_run_as_the_worker() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::new();
    let mark = host.path("hook-ran");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"] {
        for folder in [host.path("host.git/hooks"), host.path("own-hooks")] {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(hook), &script).unwrap();
            std::fs::set_permissions(folder.join(hook), PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
    host.git("host.git", &["config", "core.hooksPath", &host.path("own-hooks").display().to_string()]);
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
    assert!(!mark.exists());
}

#[tokio::test]
async fn empty_repository_gets_its_first_branch() {
    let host = Host::new();
    std::fs::remove_dir_all(host.path("host.git")).unwrap();
    host.git("", &["init", "--quiet", "--bare", "host.git"]);
    let mut served = host.serve().await;
    served.relay.prepare().await.unwrap();
    served.push_to_host();
    let root = clone(&host, &served).await;
    let below = served.agent(&root, &["push", "origin", &format!("HEAD:refs/heads/{BRANCH}/y")]).await;
    assert!(!below.status.success());
    let head = commit(&served, &root, "work").await;
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    served.relay.delivered(LIMIT).await;
    assert_eq!(host.branch(BRANCH), Some(head));
}
