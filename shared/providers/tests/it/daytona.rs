//! Tests of the Daytona provider against a fake Daytona that injects faults.

use crate::support::{
    self, id, marked, retry, spec, until, until_begun, until_deleted, until_ready, variables, worker,
};
use kit::daytona::{self, Fault, Faults, Operation};
use kit::seed;
use providers::daytona::{Daytona, Options, WorkerSource};
use providers::{Deletion, Failure, FailureClass, RequestedSize, SandboxProvider, SandboxSpec, State};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

fn with_worker_file(fake: &daytona::Daytona, folder: &TempDir) -> Daytona {
    with_worker(fake, WorkerSource::File(worker(folder.path(), "")))
}

fn with_worker(fake: &daytona::Daytona, worker: WorkerSource) -> Daytona {
    Daytona::new(Options {
        api_url: fake.url().to_owned(),
        api_key: fake.key().to_owned(),
        organization: None,
        target: None,
        plane: "here".to_owned(),
        worker,
        timeout: Duration::from_secs(5),
    })
}

async fn stage(options: daytona::Options) -> (daytona::Daytona, Daytona, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let fake = daytona::Daytona::start(options).await;
    let provider = with_worker_file(&fake, &folder);
    (fake, provider, folder)
}

fn busy(header: &str) -> Fault {
    Fault::RateLimited { header: header.to_owned(), secs: 7 }
}

#[tokio::test]
async fn daytona_fulfils_the_provider_contract() {
    let delay = Duration::from_millis(150);
    let options = daytona::Options { start_delay: delay, delete_delay: delay, ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    support::check_contract(&provider, "daytona-contract").await;
    assert_eq!(fake.sandboxes().len(), 1);
    assert_eq!(fake.processes("box-1"), [0; 0]);
}

#[tokio::test]
async fn sandbox_is_created_from_the_spec_without_secrets() {
    let (fake, provider, _folder) = stage(daytona::Options::default()).await;
    let found = provider.create(&spec("box")).await.unwrap();
    provider.upload(&found).await.unwrap();
    provider.start(&found, &variables("daytona-secret")).await.unwrap();
    until_begun(&provider, &id("box"), "daytona-secret").await;
    let seen = &fake.sandboxes()[0];
    let expected = serde_json::json!({
        "name": "box", "snapshot": support::SNAPSHOT, "env": {}, "public": false,
        "autoStopInterval": 0, "ttlMinutes": 90,
        "labels": {"app": "sunaba", "plane": "here", "sandbox": "box", "task": "t1"},
    });
    assert_eq!(seen.request, expected);
    assert_eq!(seen.commands.len(), 1);
    assert!(!seen.commands[0].contains(support::SECRET), "{:?}", seen.commands);
    for entry in std::fs::read_dir(home_of_worker(&fake)).unwrap().flatten() {
        let content = std::fs::read(entry.path()).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains(support::SECRET), "{entry:?}");
    }
}

/// The directory of the worker's files in the first sandbox.
fn home_of_worker(fake: &daytona::Daytona) -> PathBuf {
    let command = fake.sandboxes()[0].commands[0].clone();
    PathBuf::from(command.split('"').nth(1).unwrap()).parent().unwrap().to_owned()
}

/// A worker that prints the mode of its secrets and its environment, and keeps both.
const INSPECTING_WORKER: &str = r#"#!/bin/sh
stat -c 'mode %a' "$SECRETS_FILE"
env
echo inspected
exec sleep 1000
"#;

#[tokio::test]
async fn secrets_reach_the_worker_in_a_file_and_not_in_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("worker.sh");
    std::fs::write(&program, INSPECTING_WORKER).unwrap();
    let fake = daytona::Daytona::start(daytona::Options::default()).await;
    let provider = with_worker(&fake, WorkerSource::File(program));
    let found = provider.create(&spec("box")).await.unwrap();
    provider.upload(&found).await.unwrap();
    let mut variables = variables("daytona-file");
    variables.insert("GITHUB_TOKEN".to_owned(), "planted-key".to_owned());
    provider.start(&found, &variables).await.unwrap();
    let printed = until("the environment of the worker", async || {
        let log = provider.logs(&id("box")).await.unwrap().text;
        log.contains("inspected").then_some(log)
    });
    let printed = printed.await;
    assert!(printed.contains("mode 600\n") && printed.contains("SANDBOX_ID=box\n"), "{printed}");
    let secrets = std::fs::read(home_of_worker(&fake).join("secrets")).unwrap();
    let secrets: serde_json::Value = serde_json::from_slice(&secrets).unwrap();
    for (name, value) in variables {
        assert!(!printed.contains(&name) && !printed.contains(&value), "{name}: {printed}");
        assert_eq!(secrets[&name], value.as_str());
    }
}

#[tokio::test]
async fn missing_snapshot_falls_back_to_the_image_with_its_resources() {
    let options = daytona::Options { snapshots: Vec::new(), ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    provider.create(&spec("box")).await.unwrap();
    let seen = fake.sandboxes();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].request["buildInfo"]["dockerfileContent"], "FROM debian:12\n");
    assert_eq!([&seen[0].request["cpu"], &seen[0].request["memory"], &seen[0].request["disk"]], [1, 4, 8]);
    let mut bare = spec("bare");
    bare.resources.image.clear();
    let refused = provider.create(&bare).await.unwrap_err();
    assert_eq!(refused.class, FailureClass::Refused);
    assert!(refused.message.contains("Snapshot"), "{}", refused.message);
}

#[tokio::test]
async fn sandbox_from_a_snapshot_is_resized_to_the_requested_resources() {
    let refused = Fault::Rejected { status: 400, message: "Not that much".to_owned() };
    for (fault, memory_gb) in
        [(None, 6), (Some(Fault::ResponseLost), 6), (Some(Fault::Error), 6), (Some(refused), 2)]
    {
        let (fake, provider, _folder) = stage(daytona::Options::default()).await;
        let faults =
            fault.into_iter().fold(Faults::none(), |faults, fault| faults.once(Operation::Resize, fault));
        fake.set_faults(faults);
        let requested = RequestedSize { memory_gb: Some(6), cpu: Some(1) };
        let spec = SandboxSpec { requested, ..spec("box") };
        let found = retry("creating a sandbox", || provider.create(&spec)).await;
        let actual = found.actual_resources.unwrap();
        assert_eq!((actual.memory_gb, actual.cpu, actual.disk_gb), (Some(memory_gb), Some(1), Some(5)));
        assert_eq!(actual.snapshot.as_deref(), Some(support::SNAPSHOT));
        assert_eq!(fake.sandboxes().len(), 1);
    }
}

#[tokio::test]
async fn default_image_is_not_used_for_a_worker_that_must_be_in_the_image() {
    let fake =
        daytona::Daytona::start(daytona::Options { snapshots: Vec::new(), ..Default::default() }).await;
    let provider = with_worker(&fake, WorkerSource::InImage("/usr/bin/true".to_owned()));
    let mut default_image = spec("box");
    default_image.resources.image = domain::resources::DEFAULT_IMAGE.to_owned();
    let refused = provider.create(&default_image).await.unwrap_err();
    assert_eq!(refused.class, FailureClass::Refused);
    assert!(refused.message.contains("not found"), "{refused}");
    assert_eq!(fake.sandboxes().len(), 0);
    let found = provider.create(&spec("box")).await.unwrap();
    assert_eq!(
        found.actual_resources.unwrap().image.as_deref(),
        Some("debian:12"),
        "an explicit image is used"
    );
    let folder = tempfile::tempdir().unwrap();
    default_image.name = id("other");
    with_worker_file(&fake, &folder).create(&default_image).await.unwrap();
    assert_eq!(fake.sandboxes().len(), 2, "an uploaded worker runs in any image");
}

#[tokio::test]
async fn worker_that_cannot_run_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "#!/nowhere/at/all\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (worker, message) in
        [("/usr/local/bin/no-such-worker", "no worker executable at"), (broken.to_str().unwrap(), "127")]
    {
        let fake = daytona::Daytona::start(daytona::Options::default()).await;
        let provider = with_worker(&fake, WorkerSource::InImage(worker.to_owned()));
        let found = provider.create(&spec("box")).await.unwrap();
        // The check after the start is delayed, as over a real network, so that the worker has exited by then.
        let late = Fault::Delayed(Duration::from_millis(300));
        let checks = Faults::none().once(Operation::GetSession, Fault::Delayed(Duration::ZERO));
        fake.set_faults(checks.once(Operation::GetSession, late));
        let failure = provider.start(&found, &variables("daytona-broken")).await.unwrap_err();
        assert!(failure.message.contains(message), "{failure}");
        assert_eq!(failure.class, FailureClass::Unreachable, "the task is not to blame");
    }
}

#[tokio::test]
async fn failures_are_classified_by_what_the_caller_can_do() {
    let refused = |status, message: &str| Fault::Rejected { status, message: message.to_owned() };
    let waits = FailureClass::Busy { retry_after_secs: Some(7) };
    let quota_exhausted = FailureClass::Busy { retry_after_secs: None };
    for (fault, class) in [
        (busy("retry-after"), waits),
        (busy("retry-after-sandbox-create"), waits),
        (Fault::Error, FailureClass::Unreachable),
        (Fault::RequestLost, FailureClass::Unreachable),
        (refused(503, "Back soon"), FailureClass::Unreachable),
        (refused(408, "Too slow"), FailureClass::Unreachable),
        (refused(403, "Total CPU limit exceeded"), quota_exhausted),
        (refused(400, "Name is too long"), FailureClass::Refused),
        (refused(401, "The key dtn_key is not valid"), FailureClass::Unreachable),
    ] {
        let faults =
            Faults::none().once(Operation::Create, fault.clone()).once(Operation::List, fault.clone());
        let (fake, provider, _folder) =
            stage(daytona::Options { faults, ..daytona::Options::default() }).await;
        let check = |failure: Failure| {
            assert_eq!(failure.class, class, "{fault:?}: {failure}");
            assert!(!failure.message.contains(fake.key()), "{failure}");
        };
        check(provider.create(&spec("box")).await.unwrap_err());
        check(provider.list().await.unwrap_err());
        assert_eq!(fake.live_sandboxes().len(), 0);
        provider.create(&spec("box")).await.unwrap();
        assert_eq!(provider.list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn sandbox_is_found_by_name_after_a_lost_create_response() {
    for fault in [Fault::ResponseLost, Fault::ErrorAfterExecution] {
        let faults = Faults::none().once(Operation::Create, fault);
        let (fake, provider, _folder) =
            stage(daytona::Options { faults, ..daytona::Options::default() }).await;
        let found = provider.create(&spec("box")).await.unwrap();
        assert_eq!(found.provider_id, fake.sandboxes()[0].id);
        assert_eq!(provider.create(&spec("box")).await.unwrap(), found);
        assert_eq!(fake.sandboxes().len(), 1);
    }
}

#[tokio::test]
async fn sandbox_created_after_the_timeout_is_found_later() {
    let faults = Faults::none().once(Operation::Create, Fault::Delayed(Duration::from_secs(2)));
    let fake = daytona::Daytona::start(daytona::Options { faults, ..daytona::Options::default() }).await;
    let provider = |timeout| {
        Daytona::new(Options {
            api_url: fake.url().to_owned(),
            api_key: fake.key().to_owned(),
            organization: Some("org".to_owned()),
            target: Some("eu".to_owned()),
            plane: "here".to_owned(),
            worker: WorkerSource::InImage("/usr/bin/true".to_owned()),
            timeout,
        })
    };
    let failure = provider(Duration::from_millis(500)).create(&spec("box")).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable);
    // The following calls must not time out.
    let provider = provider(Duration::from_secs(60));
    until_ready(&provider, &id("box")).await;
    provider.create(&spec("box")).await.unwrap();
    assert_eq!(fake.sandboxes().len(), 1);
    assert_eq!(fake.sandboxes()[0].request["target"], "eu");
}

#[tokio::test]
async fn deletion_is_done_only_when_daytona_confirms_it() {
    let options =
        daytona::Options { delete_delay: Duration::from_secs(3_600), ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    let name = id("box");
    provider.create(&spec("box")).await.unwrap();
    fake.set_faults(Faults::none().once(Operation::Delete, Fault::ResponseLost));
    let failure = provider.destroy(&name).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable);
    assert_eq!(
        provider.destroy(&name).await.unwrap(),
        Deletion::InProgress,
        "a second request finds the deletion in progress"
    );
    assert_eq!(provider.find(&name).await.unwrap().unwrap().state, State::Deleting);
    fake.end("box");
    until_deleted(&provider, &name).await;
    assert_eq!(provider.destroy(&name).await.unwrap(), Deletion::Done, "404 counts as deleted");
}

#[tokio::test]
async fn incomplete_list_is_a_failure() {
    let (fake, provider, _folder) = stage(daytona::Options { page: 3, ..daytona::Options::default() }).await;
    for number in 0..8 {
        let mut spec = spec(&format!("box-{number}"));
        if number == 4 {
            spec.plane = "elsewhere".to_owned();
        }
        provider.create(&spec).await.unwrap();
    }
    assert_eq!(provider.list().await.unwrap().len(), 7);
    assert_eq!(fake.calls()[&Operation::List], 3);
    // The second page fails.
    fake.set_faults(
        Faults::none()
            .once(Operation::List, Fault::Delayed(Duration::ZERO))
            .once(Operation::List, Fault::Error),
    );
    assert_eq!(provider.list().await.unwrap_err().class, FailureClass::Unreachable);
}

#[tokio::test]
async fn one_worker_runs_whichever_response_of_the_start_is_lost() {
    let operations = [
        Operation::Find,
        Operation::Execute,
        Operation::Upload,
        Operation::OpenSession,
        Operation::GetSession,
        Operation::RunInSession,
    ];
    for operation in operations {
        let faults = [Fault::ResponseLost, Fault::Error, Fault::ErrorAfterExecution, busy("retry-after")];
        for (number, fault) in faults.into_iter().enumerate() {
            let (fake, provider, _folder) = stage(daytona::Options::default()).await;
            let mark = format!("daytona-{operation:?}-{number}");
            let found = provider.create(&spec("box")).await.unwrap();
            provider.upload(&found).await.unwrap();
            fake.set_faults(Faults::none().once(operation, fault));
            assert!(provider.start(&found, &variables(&mark)).await.is_err());
            provider.start(&found, &variables(&mark)).await.unwrap();
            let log = until_begun(&provider, &id("box"), &mark).await;
            assert_eq!(log.matches("begun").count(), 1, "{mark}");
            assert_eq!(fake.sandboxes()[0].commands.len(), 1, "{mark}");
            until_deleted(&provider, &id("box")).await;
            assert_eq!(marked(&mark), [0; 0]);
        }
    }
}

#[tokio::test]
async fn session_is_reopened_after_its_shell_exited() {
    let (fake, provider, _folder) = stage(daytona::Options::default()).await;
    let found = provider.create(&spec("box")).await.unwrap();
    provider.upload(&found).await.unwrap();
    let exited = Fault::Rejected { status: 410, message: "shell has exited".to_owned() };
    fake.set_faults(Faults::none().once(Operation::RunInSession, exited));
    let failure = provider.start(&found, &variables("daytona-shell")).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable, "a retry succeeds");
    provider.start(&found, &variables("daytona-shell")).await.unwrap();
    until_begun(&provider, &id("box"), "daytona-shell").await;
    assert_eq!(fake.calls()[&Operation::CloseSession], 1);
}

#[tokio::test]
async fn retries_create_and_delete_a_sandbox_under_random_faults() {
    seed::each(0..20, async |seed| {
        let short = Duration::from_millis(20);
        let faults = Faults::none().at_random(seed, 30);
        let options = daytona::Options {
            faults,
            start_delay: short,
            delete_delay: short,
            ..daytona::Options::default()
        };
        let (fake, provider, _folder) = stage(options).await;
        let (name, spec, mark) = (id("box"), spec("box"), format!("daytona-dice-{seed}"));
        let variables = variables(&mark);
        retry("creating a sandbox", || provider.create(&spec)).await;
        let ready = || async { provider.find(&name).await.ok()?.filter(|found| found.state == State::Ready) };
        let found = until("a sandbox that is ready", ready).await;
        retry("uploading the worker", || provider.upload(&found)).await;
        retry("starting the worker", || provider.start(&found, &variables)).await;
        let deleted = || async { (provider.destroy(&name).await == Ok(Deletion::Done)).then_some(()) };
        until("its deletion", deleted).await;
        assert_eq!(fake.sandboxes().len(), 1);
        assert_eq!(fake.live_sandboxes().len(), 0);
        assert_eq!(marked(&mark), [0; 0]);
    })
    .await;
}

#[tokio::test]
async fn preview_token_is_omitted_from_debug_output() {
    let (_fake, provider, _folder) = stage(daytona::Options::default()).await;
    provider.create(&spec("box")).await.unwrap();
    let link = provider.preview(&id("box"), 8080).await.unwrap().unwrap();
    assert!(link.url.starts_with("https://8080-"), "{link:?}");
    assert_eq!(link.token.as_deref(), Some("preview-token"));
    assert!(!format!("{link:?} {provider:?}").contains("preview-token"));
    assert!(!format!("{provider:?}").contains("dtn_key"));
}
