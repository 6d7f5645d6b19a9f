//! Tests of the process provider.

use crate::support::{
    self, id, marked, spec, until, until_begun, until_deleted, until_ready, variables, worker,
};
use domain::SandboxId;
use providers::process::{Isolation, Options, Process};
use providers::{Deletion, SandboxProvider, State};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn options(folder: &TempDir, extra: &str) -> Options {
    let worker = worker(folder.path(), extra);
    Options::new(folder.path().join("sandboxes"), "here", vec![worker.into()])
}

/// A sandbox with a running worker.
async fn started(provider: &Process, name: &str, mark: &str) -> SandboxId {
    let name = id(name);
    let found = provider.create(&spec(name.as_str())).await.unwrap();
    provider.upload(&found).await.unwrap();
    provider.start(&found, &variables(mark)).await.unwrap();
    until_begun(provider, &name, mark).await;
    name
}

#[tokio::test]
async fn process_fulfils_the_provider_contract() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Process::new(options(&folder, "")).unwrap();
    support::check_contract(&provider, "process-contract").await;
    let log = provider.logs(&id("box-1")).await.unwrap().text;
    assert!(log.contains("begun"), "its log is kept for a while");
    assert!(!folder.path().join("sandboxes/box-1").exists());
}

#[tokio::test]
async fn worker_outlives_the_plane_and_a_restarted_plane_deletes_it() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-outlives");
    let first = Process::new(options(&folder, "")).unwrap();
    let name = started(&first, "box-2", mark).await;
    drop(first);
    let second = Process::new(options(&folder, "")).unwrap();
    let running = marked(mark);
    let found = until_ready(&second, &name).await;
    second.start(&found, &variables(mark)).await.unwrap();
    assert_eq!(second.logs(&name).await.unwrap().text.matches("begun").count(), 1);
    assert!(running.iter().all(|id| marked(mark).contains(id)));
    until_deleted(&second, &name).await;
    assert_eq!(marked(mark), [0; 0]);
}

#[tokio::test]
async fn worker_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-stubborn");
    let mut options = options(&folder, "trap '' TERM");
    options.grace = Duration::from_secs(3600);
    let provider = Process::new(options.clone()).unwrap();
    let name = started(&provider, "box-3", mark).await;
    let destroyed = || async { Some(provider.destroy(&name).await.unwrap()) };
    let deletion = until("a result while the worker ignores SIGTERM", destroyed).await;
    assert_eq!(deletion, Deletion::InProgress, "the grace period has not elapsed");
    assert_eq!(provider.find(&name).await.unwrap().unwrap().state, State::Deleting);
    assert_eq!(provider.list().await.unwrap().len(), 1, "it still exists");
    // The next plane has the same worker and no grace period.
    options.grace = Duration::ZERO;
    let provider = Process::new(options).unwrap();
    until_deleted(&provider, &name).await;
    assert_eq!(marked(mark), [0; 0]);
}

#[tokio::test]
async fn worker_can_write_output_during_the_grace_period() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-final-output");
    let provider = Process::new(options(&folder, "trap 'echo terminated; exit 0' TERM")).unwrap();
    let name = started(&provider, "box-4", mark).await;
    until_deleted(&provider, &name).await;
    assert!(provider.logs(&name).await.unwrap().text.contains("terminated"));
}

#[tokio::test]
async fn detached_child_is_killed_through_its_parent() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-bare");
    let bare = "env -i PATH=\"$PATH\" setsid sh -c 'echo bare $$; exec sleep 1003' & trap '' TERM";
    let mut options = options(&folder, bare);
    options.grace = Duration::ZERO;
    let provider = Process::new(options).unwrap();
    let name = started(&provider, "box-5", mark).await;
    let log = until("its pid", || async {
        let log = provider.logs(&name).await.unwrap().text;
        log.contains("bare ").then_some(log)
    });
    let log = log.await;
    let pid = log.lines().find_map(|line| line.strip_prefix("bare ")).unwrap().to_owned();
    until_deleted(&provider, &name).await;
    let exited = || async {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    };
    until("the exit of the child", exited).await;
}

#[tokio::test]
async fn exited_worker_is_started_again() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-again");
    let options = options(&folder, "test -e ../seen || { touch ../seen; exit 7; }");
    let (provider, next_plane) = (Process::new(options.clone()).unwrap(), Process::new(options).unwrap());
    let name = id("box-6");
    let found = provider.create(&spec("box-6")).await.unwrap();
    let log = || async { provider.logs(&name).await.unwrap().text.matches("begun").count() };
    provider.start(&found, &variables(mark)).await.unwrap();
    until("the first start", || async { (log().await == 1 && marked(mark).is_empty()).then_some(()) }).await;
    let exit = until("its exit", || async { provider.worker_exit(&name).await.unwrap() }).await;
    assert_eq!(exit, "The worker exited with code 7.");
    assert_eq!(
        next_plane.worker_exit(&name).await.unwrap().unwrap(),
        "The worker exited; its exit status is unknown."
    );
    provider.start(&found, &variables(mark)).await.unwrap();
    until("the second start", || async { (log().await == 2).then_some(()) }).await;
    assert_eq!(provider.worker_exit(&name).await.unwrap(), None);
    assert_eq!(next_plane.worker_exit(&name).await.unwrap(), None);
    until_deleted(&provider, &name).await;
}

#[tokio::test]
async fn worker_has_limits_own_directories_and_a_clean_environment() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-limits");
    let inspect = "cat /proc/$$/limits; grep Cpus_allowed_list /proc/$$/status; pwd; env";
    let mut options = options(&folder, inspect);
    options.environment.insert("LANG".into(), "C.UTF-8".into());
    let provider = Process::new(options).unwrap();
    let name = started(&provider, "box-7", mark).await;
    let log = provider.logs(&name).await.unwrap().text;
    let own = folder.path().join("sandboxes/box-7");
    let line = |start: &str| log.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("Max data size").contains(&(4_u64 << 30).to_string()), "{log}");
    assert!(line("Max core file size").contains(" 0 "), "{log}");
    let several = line("Cpus_allowed_list").contains(['-', ',']);
    assert!(!several, "one CPU was requested: {log}");
    for (variable, inner) in [
        ("HOME", "home"),
        ("AGENT_HOME", "home"),
        ("TMPDIR", "tmp"),
        ("STATE_DIR", "state"),
        ("CWD", "workspace"),
    ] {
        assert!(log.contains(&format!("{variable}={}\n", own.join(inner).display())), "{variable}: {log}");
    }
    assert!(log.contains("LANG=C.UTF-8\n"));
    assert!(!log.contains("CARGO"), "the environment of this test is not inherited");
    until_deleted(&provider, &name).await;
}

#[tokio::test]
async fn configured_isolation_is_passed_to_the_worker_and_described() {
    for (isolation, value, description) in [
        (Isolation::None, "none", "NOT ISOLATED"),
        (Isolation::Landlock, "landlock", "change only its own"),
        (Isolation::SandboxExec, "sandbox-exec", "connect only to its worker"),
        (Isolation::Namespaces, "namespaces", "its own processes"),
        (Isolation::Auto, "auto", "the strongest way"),
    ] {
        let (folder, mark) = (tempfile::tempdir().unwrap(), format!("process-isolation-{value}"));
        let mut options = options(&folder, "echo \"isolation: $ISOLATION.\"");
        options.isolation = isolation;
        let provider = Process::new(options).unwrap();
        assert!(provider.isolation().contains(description), "{}", provider.isolation());
        let name = id("box-9");
        let found = provider.create(&spec("box-9")).await.unwrap();
        let mut variables = variables(&mark);
        variables.insert("ISOLATION".into(), "none".into());
        provider.start(&found, &variables).await.unwrap();
        let log = until_begun(&provider, &name, &mark).await;
        assert!(log.contains(&format!("isolation: {value}.")), "{log}");
        until_deleted(&provider, &name).await;
    }
}

#[tokio::test]
async fn secrets_are_not_written_to_disk() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-secrets");
    let provider = Process::new(options(&folder, "")).unwrap();
    let name = started(&provider, "box-8", mark).await;
    let mut files = 0;
    check_files(&folder.path().join("sandboxes"), &mut files);
    assert!(files >= 3, "metadata, worker record and log");
    until_deleted(&provider, &name).await;
}

fn check_files(folder: &Path, files: &mut usize) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            check_files(&entry.path(), files);
            continue;
        }
        *files += 1;
        let text = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
        assert!(!text.contains(support::SECRET), "{}", entry.path().display());
    }
}

#[tokio::test]
async fn own_and_incomplete_sandboxes_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Process::new(options(&folder, "")).unwrap();
    let mut other = spec("other");
    other.plane = "elsewhere".to_owned();
    provider.create(&other).await.unwrap();
    provider.create(&spec("own")).await.unwrap();
    fs::create_dir_all(folder.path().join("sandboxes/incomplete/home")).unwrap();
    let listed = provider.list().await.unwrap();
    let mut names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["incomplete", "own"]);
    assert_eq!(provider.destroy(&id("incomplete")).await.unwrap(), Deletion::Done);
    assert!(!folder.path().join("sandboxes/incomplete").exists());
}
