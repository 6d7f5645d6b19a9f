//! Helpers for the tests of all providers: a worker that leaves traces, and ways to wait.

use domain::SandboxId;
use providers::{
    Deletion, Failure, Found, RequestedSize, Resources, SandboxProvider, SandboxSpec, State, Tail,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Timeout of everything that a test waits for.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The snapshot that the fake Daytona has.
pub const SNAPSHOT: &str = "ai-agent-dev-light";

/// Must appear only in the worker's environment.
pub const SECRET: &str = "s3cret-of-the-worker";

pub fn id(name: &str) -> SandboxId {
    SandboxId::parse(name).unwrap()
}

pub fn spec(name: &str) -> SandboxSpec {
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
        requested: RequestedSize::default(),
        labels: BTreeMap::from([("task".to_owned(), "t1".to_owned())]),
        lifetime_minutes: 90,
    }
}

/// Inherited by every process of the worker.
pub fn variables(mark: &str) -> BTreeMap<String, String> {
    [("TEST_MARK", unique(mark).as_str()), ("SANDBOX_TOKEN", SECRET)]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
}

/// Unique to this test process: others may run at the same time.
fn unique(mark: &str) -> String {
    format!("{mark}-{}", std::process::id())
}

/// Exports the variables of [`variables`], which are JSON.
const EXPORT: &str = r#"json=$(cat "$SECRETS_FILE")
[ ! -f "$SECRETS_FILE" ] || rm "$SECRETS_FILE"
for name in TEST_MARK SANDBOX_TOKEN; do
value=$(printf %s "$json" | sed "s/.*\"$name\":\"\([^\"]*\)\".*/\1/")
export "$name=$value"
done
"#;

/// A worker script that prints `begun`, starts one child in its process group and one outside, and keeps running. `extra`
/// is a line of the script.
pub fn worker(folder: &Path, extra: &str) -> PathBuf {
    // Its variables become its environment, as if it had started with them.
    let script = format!(
        "#!/bin/sh\nif [ -n \"$SECRETS_FILE\" ]; then\n{EXPORT}unset SECRETS_FILE\nexec \"$0\"\nfi\necho \"begun $SANDBOX_ID with a token of ${{#SANDBOX_TOKEN}} letters\"\n{extra}\n\
         setsid sleep 1000 &\nsleep 1001 &\nsleep 1002\n"
    );
    let path = folder.join("worker.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The running processes with this mark.
pub fn marked(mark: &str) -> Vec<i32> {
    let variable = format!("TEST_MARK={}", unique(mark));
    let ids = fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|found| found == variable.as_bytes())
    })
    .collect()
}

/// Polls until there is a result.
pub async fn until<T, Polled: Future<Output = Option<T>>>(what: &str, mut poll: impl FnMut() -> Polled) -> T {
    let found = async {
        loop {
            if let Some(result) = poll().await {
                return result;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, found).await.unwrap_or_else(|_| panic!("timed out after {TIMEOUT:?}: {what}"))
}

pub async fn until_ready(provider: &dyn SandboxProvider, name: &SandboxId) -> Found {
    let ready = || async {
        let found = provider.find(name).await.unwrap();
        found.filter(|found| found.state == State::Ready)
    };
    until("a sandbox that is ready", ready).await
}

/// Waits until the worker has printed `begun` and all of its children run.
pub async fn until_begun(provider: &dyn SandboxProvider, name: &SandboxId, mark: &str) -> String {
    let begun = || async {
        let log = provider.logs(name).await.unwrap().text;
        (log.contains("begun") && marked(mark).len() >= 4).then_some(log)
    };
    until("the worker's first output", begun).await
}

/// Calls `destroy` until the sandbox is deleted.
pub async fn until_deleted(provider: &dyn SandboxProvider, name: &SandboxId) {
    let deleted = || async {
        let deletion = provider.destroy(name).await.unwrap();
        (deletion == Deletion::Done).then_some(())
    };
    until("the deletion of a sandbox", deleted).await;
}

/// Retries a call until it succeeds.
pub async fn retry<T, Called: Future<Output = Result<T, Failure>>>(
    what: &str,
    mut call: impl FnMut() -> Called,
) -> T {
    until(what, || {
        let called = call();
        async { called.await.ok() }
    })
    .await
}

/// Checks the contract of [`SandboxProvider`].
pub async fn check_contract(provider: &dyn SandboxProvider, mark: &str) {
    let (spec, name) = (spec("box-1"), id("box-1"));
    assert_eq!(provider.find(&name).await.unwrap(), None);
    assert_eq!(
        provider.destroy(&name).await.unwrap(),
        Deletion::Done,
        "a sandbox that never existed counts as deleted"
    );
    assert_eq!(provider.list().await.unwrap(), []);
    assert_eq!(provider.logs(&name).await.unwrap(), Tail::default());
    assert_eq!(provider.preview(&name, 3000).await.unwrap(), None);

    let first = provider.create(&spec).await.unwrap();
    let second = provider.create(&spec).await.unwrap();
    assert_eq!(first.provider_id, second.provider_id, "creation is idempotent");
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
    assert!(running.iter().all(|id| marked(mark).contains(id)), "the running worker was left alone");

    let listed = provider.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].name, &listed[0].provider_id), (&name, &found.provider_id));
    assert!(listed[0].created_at_secs.is_some_and(|secs| secs > 1_700_000_000));

    until_deleted(provider, &name).await;
    assert_eq!(marked(mark), [0; 0], "all of its processes are killed, including those outside its group");
    assert_eq!(provider.find(&name).await.unwrap(), None);
    assert_eq!(provider.list().await.unwrap(), []);
    assert_eq!(provider.destroy(&name).await.unwrap(), Deletion::Done);
    assert!(provider.start(&found, &variables(mark)).await.is_err(), "no worker starts in a deleted sandbox");
    assert_eq!(marked(mark), [0; 0]);
}
