//! What the tests of all providers need: a worker that leaves traces, and ways to wait.

use domain::SandboxId;
use providers::{Asked, Failure, Found, Gone, Resources, SandboxProvider, SandboxSpec, State, Tail};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Whatever a test waits for comes within this time, or not at all.
pub const SOON: Duration = Duration::from_secs(30);

/// The snapshot that the fake Daytona has.
pub const SNAPSHOT: &str = "ai-agent-dev-light";

/// A value that must be nowhere but in the worker's environment.
pub const SECRET: &str = "s3cret-of-the-worker";

pub fn id(name: &str) -> SandboxId {
    SandboxId::parse(name).unwrap()
}

pub fn wish(name: &str) -> SandboxSpec {
    SandboxSpec {
        name: id(name),
        plane: "here".to_owned(),
        resources: Resources {
            memory_gb: 4,
            cpu: 1,
            disk_gb: 8,
            snapshot: SNAPSHOT.to_owned(),
            image: "debian:12".to_owned(),
        },
        asked: Asked::default(),
        labels: BTreeMap::from([("task".to_owned(), "t1".to_owned())]),
        lifetime_minutes: 90,
    }
}

/// What every process of the worker has in its environment.
pub fn variables(mark: &str) -> BTreeMap<String, String> {
    [("TEST_MARK", own(mark).as_str()), ("SANDBOX_TOKEN", SECRET)]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
}

/// A mark of this run of the tests: others may run beside it.
fn own(mark: &str) -> String {
    format!("{mark}-{}", std::process::id())
}

/// A worker that says that it began, has a child in its group and one that left it, and stays. `more` is a line of it.
pub fn worker(folder: &Path, more: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\necho \"begun $SANDBOX_ID with a token of ${{#SANDBOX_TOKEN}} letters\"\n{more}\n\
         setsid sleep 1000 &\nsleep 1001 &\nsleep 1002\n"
    );
    let path = folder.join("worker.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Everybody who has this mark, and has not ended.
pub fn marked(mark: &str) -> Vec<i32> {
    let variable = format!("TEST_MARK={}", own(mark));
    let ids = fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|found| found == variable.as_bytes())
    })
    .collect()
}

/// Asks until the answer is one to go on with.
pub async fn until<T, Asked: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> Asked) -> T {
    let found = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, found).await.unwrap_or_else(|_| panic!("{what} has not come within {SOON:?}"))
}

/// Waits until a sandbox can be used.
pub async fn until_ready(provider: &dyn SandboxProvider, name: &SandboxId) -> Found {
    let ready = || async {
        let found = provider.find(name).await.unwrap();
        found.filter(|found| found.state == State::Ready)
    };
    until("a sandbox that is ready", ready).await
}

/// Waits until the worker has said that it began, and all of its children run.
pub async fn until_begun(provider: &dyn SandboxProvider, name: &SandboxId, mark: &str) -> String {
    let begun = || async {
        let log = provider.logs(name).await.unwrap().text;
        (log.contains("begun") && marked(mark).len() >= 4).then_some(log)
    };
    until("the worker's first word", begun).await
}

/// Destroys until it is gone.
pub async fn until_gone(provider: &dyn SandboxProvider, name: &SandboxId) {
    let gone = || async {
        let gone = provider.destroy(name).await.unwrap();
        (gone == Gone::Yes).then_some(())
    };
    until("the end of a sandbox", gone).await;
}

/// Does something until it succeeds, whatever goes wrong on the way.
pub async fn patiently<T, Asked: Future<Output = Result<T, Failure>>>(
    what: &str,
    mut ask: impl FnMut() -> Asked,
) -> T {
    until(what, || {
        let asked = ask();
        async { asked.await.ok() }
    })
    .await
}

/// What every provider promises.
pub async fn keeps_its_promises(provider: &dyn SandboxProvider, mark: &str) {
    let (wish, name) = (wish("box-1"), id("box-1"));
    assert_eq!(provider.find(&name).await.unwrap(), None);
    assert_eq!(provider.destroy(&name).await.unwrap(), Gone::Yes, "one that never was is gone");
    assert_eq!(provider.list().await.unwrap(), []);
    assert_eq!(provider.logs(&name).await.unwrap(), Tail::default());
    assert_eq!(provider.preview(&name, 3000).await.unwrap(), None);

    let first = provider.create(&wish).await.unwrap();
    let second = provider.create(&wish).await.unwrap();
    assert_eq!(first.provider_id, second.provider_id, "twice is once");
    let found = until_ready(provider, &name).await;
    assert_eq!(found.provider_id, first.provider_id);
    assert!(provider.preview(&name, 3000).await.unwrap().unwrap().url.contains("3000"));

    for _ in 0..2 {
        provider.upload(&found).await.unwrap();
    }
    for _ in 0..2 {
        provider.start(&found, &variables(mark)).await.unwrap();
    }
    let log = until_begun(provider, &name, mark).await;
    let running = marked(mark);
    provider.start(&found, &variables(mark)).await.unwrap();
    assert!(log.contains(&format!("begun box-1 with a token of {} letters", SECRET.len())), "{log}");
    assert_eq!(provider.logs(&name).await.unwrap().text.matches("begun").count(), 1, "one worker");
    assert!(running.iter().all(|id| marked(mark).contains(id)), "it was left alone");

    let listed = provider.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].name, &listed[0].provider_id), (&name, &found.provider_id));
    assert!(listed[0].created_at_secs.is_some_and(|secs| secs > 1_700_000_000));

    until_gone(provider, &name).await;
    assert_eq!(marked(mark), [0; 0], "everything of it is dead, also what left its group");
    assert_eq!(provider.find(&name).await.unwrap(), None);
    assert_eq!(provider.list().await.unwrap(), []);
    assert_eq!(provider.destroy(&name).await.unwrap(), Gone::Yes);
    assert!(provider.start(&found, &variables(mark)).await.is_err(), "nothing starts in one that is gone");
    assert_eq!(marked(mark), [0; 0]);
}
