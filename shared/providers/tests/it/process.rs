//! Sandboxes that are processes of this machine.

use crate::support::{
    self, id, marked, until, until_begun, until_gone, until_ready, variables, wish, worker,
};
use domain::SandboxId;
use providers::process::{Isolation, Options, Process};
use providers::{Gone, SandboxProvider, State};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn options(folder: &TempDir, more: &str) -> Options {
    let worker = worker(folder.path(), more);
    Options::new(folder.path().join("sandboxes"), "here", vec![worker.into()])
}

/// A sandbox whose worker has begun.
async fn begun(provider: &Process, name: &str, mark: &str) -> SandboxId {
    let name = id(name);
    let found = provider.create(&wish(name.as_str())).await.unwrap();
    provider.upload(&found).await.unwrap();
    provider.start(&found, &variables(mark)).await.unwrap();
    until_begun(provider, &name, mark).await;
    name
}

#[tokio::test]
async fn a_process_keeps_the_promises_of_a_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Process::new(options(&folder, "")).unwrap();
    support::keeps_its_promises(&provider, "process-promises").await;
    let log = provider.logs(&id("box-1")).await.unwrap().text;
    assert!(log.contains("begun"), "its log is kept for a while");
    assert!(!folder.path().join("sandboxes/box-1").exists());
}

#[tokio::test]
async fn a_worker_outlives_the_plane_and_the_next_one_finds_and_ends_it() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-outlives");
    let first = Process::new(options(&folder, "")).unwrap();
    let name = begun(&first, "box-2", mark).await;
    drop(first);
    let second = Process::new(options(&folder, "")).unwrap();
    let running = marked(mark);
    let found = until_ready(&second, &name).await;
    second.start(&found, &variables(mark)).await.unwrap();
    assert_eq!(second.logs(&name).await.unwrap().text.matches("begun").count(), 1);
    assert!(running.iter().all(|id| marked(mark).contains(id)));
    until_gone(&second, &name).await;
    assert_eq!(marked(mark), [0; 0]);
}

#[tokio::test]
async fn a_worker_that_will_not_end_is_killed_after_its_grace() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-stubborn");
    let mut options = options(&folder, "trap '' TERM");
    options.grace = Duration::from_secs(3600);
    let provider = Process::new(options.clone()).unwrap();
    let name = begun(&provider, "box-3", mark).await;
    let destroyed = || async { Some(provider.destroy(&name).await.unwrap()) };
    let gone = until("an answer, although the worker does not end", destroyed).await;
    assert_eq!(gone, Gone::NotYet, "it has its grace");
    assert_eq!(provider.find(&name).await.unwrap().unwrap().state, State::Going);
    assert_eq!(provider.list().await.unwrap().len(), 1, "it is not gone");
    // The next plane has the same worker, and no patience.
    options.grace = Duration::ZERO;
    let provider = Process::new(options).unwrap();
    until_gone(&provider, &name).await;
    assert_eq!(marked(mark), [0; 0]);
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_can_say_its_last_word() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-last-word");
    let provider = Process::new(options(&folder, "trap 'echo farewell; exit 0' TERM")).unwrap();
    let name = begun(&provider, "box-4", mark).await;
    until_gone(&provider, &name).await;
    assert!(provider.logs(&name).await.unwrap().text.contains("farewell"));
}

#[tokio::test]
async fn a_child_that_left_everything_behind_but_its_parent_ends_too() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-bare");
    let bare = "env -i PATH=\"$PATH\" setsid sh -c 'echo bare $$; exec sleep 1003' & trap '' TERM";
    let mut options = options(&folder, bare);
    options.grace = Duration::ZERO;
    let provider = Process::new(options).unwrap();
    let name = begun(&provider, "box-5", mark).await;
    let log = until("its number", || async {
        let log = provider.logs(&name).await.unwrap().text;
        log.contains("bare ").then_some(log)
    });
    let log = log.await;
    let number = log.lines().find_map(|line| line.strip_prefix("bare ")).unwrap().to_owned();
    until_gone(&provider, &name).await;
    let ended = || async {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    };
    until("the end of the child", ended).await;
}

#[tokio::test]
async fn a_worker_that_has_ended_is_started_again() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-again");
    let options = options(&folder, "test -e ../seen || { touch ../seen; exit 7; }");
    let (provider, next_plane) = (Process::new(options.clone()).unwrap(), Process::new(options).unwrap());
    let name = id("box-6");
    let found = provider.create(&wish("box-6")).await.unwrap();
    let log = || async { provider.logs(&name).await.unwrap().text.matches("begun").count() };
    provider.start(&found, &variables(mark)).await.unwrap();
    until("the first", || async { (log().await == 1 && marked(mark).is_empty()).then_some(()) }).await;
    let end = until("its end", || async { provider.ended(&name).await.unwrap() }).await;
    assert_eq!(end, "The worker ended with code 7.");
    assert_eq!(next_plane.ended(&name).await.unwrap().unwrap(), "The worker ended, and nobody saw how.");
    provider.start(&found, &variables(mark)).await.unwrap();
    until("the second", || async { (log().await == 2).then_some(()) }).await;
    assert_eq!(provider.ended(&name).await.unwrap(), None);
    assert_eq!(next_plane.ended(&name).await.unwrap(), None);
    until_gone(&provider, &name).await;
}

#[tokio::test]
async fn a_worker_has_limits_and_its_own_folders_and_nothing_of_the_planes_environment() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-limits");
    let look = "cat /proc/$$/limits; grep Cpus_allowed_list /proc/$$/status; pwd; env";
    let mut options = options(&folder, look);
    options.environment.insert("LANG".into(), "C.UTF-8".into());
    let provider = Process::new(options).unwrap();
    let name = begun(&provider, "box-7", mark).await;
    let log = provider.logs(&name).await.unwrap().text;
    let own = folder.path().join("sandboxes/box-7");
    let line = |start: &str| log.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("Max data size").contains(&(4_u64 << 30).to_string()), "{log}");
    assert!(line("Max core file size").contains(" 0 "), "{log}");
    let several = line("Cpus_allowed_list").contains(['-', ',']);
    assert!(!several, "one processor was asked for: {log}");
    for (variable, inner) in
        [("HOME", "home"), ("TMPDIR", "tmp"), ("STATE_DIR", "state"), ("CWD", "workspace")]
    {
        assert!(log.contains(&format!("{variable}={}\n", own.join(inner).display())), "{variable}: {log}");
    }
    assert!(log.contains("LANG=C.UTF-8\n"));
    assert!(!log.contains("CARGO"), "what this test has in its environment is not the worker's");
    until_gone(&provider, &name).await;
}

#[tokio::test]
async fn the_isolation_that_is_asked_for_is_told_to_the_worker_and_to_people() {
    for (isolation, word, said) in [
        (Isolation::None, "none", "whatever that user can"),
        (Isolation::Files, "files", "change nothing but its own"),
        (Isolation::FilesAndNetwork, "files,network", "only to the ports"),
    ] {
        let (folder, mark) = (tempfile::tempdir().unwrap(), format!("process-isolation-{word}"));
        let mut options = options(&folder, "echo \"asked for $ISOLATION.\"");
        options.isolation = isolation;
        let provider = match Process::new(options) {
            // A kernel that cannot do it says so, and nobody runs with less.
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
                continue;
            }
            Ok(provider) => provider,
        };
        assert!(provider.isolation().contains(said), "{}", provider.isolation());
        let name = id("box-9");
        let found = provider.create(&wish("box-9")).await.unwrap();
        let mut variables = variables(&mark);
        variables.insert("ISOLATION".into(), "none".into());
        provider.start(&found, &variables).await.unwrap();
        let log = until_begun(&provider, &name, &mark).await;
        assert!(log.contains(&format!("asked for {word}.")), "{log}");
        until_gone(&provider, &name).await;
    }
}

#[tokio::test]
async fn secrets_are_written_nowhere() {
    let (folder, mark) = (tempfile::tempdir().unwrap(), "process-secrets");
    let provider = Process::new(options(&folder, "")).unwrap();
    let name = begun(&provider, "box-8", mark).await;
    let mut files = 0;
    check_files(&folder.path().join("sandboxes"), &mut files);
    assert!(files >= 3, "the note, who runs, and the log");
    until_gone(&provider, &name).await;
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
async fn only_the_planes_own_are_listed_and_what_was_half_made_too() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Process::new(options(&folder, "")).unwrap();
    let mut other = wish("other");
    other.plane = "elsewhere".to_owned();
    provider.create(&other).await.unwrap();
    provider.create(&wish("own")).await.unwrap();
    fs::create_dir_all(folder.path().join("sandboxes/half/home")).unwrap();
    let listed = provider.list().await.unwrap();
    let mut names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["half", "own"]);
    assert_eq!(provider.destroy(&id("half")).await.unwrap(), Gone::Yes);
    assert!(!folder.path().join("sandboxes/half").exists());
}
