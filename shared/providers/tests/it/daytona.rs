//! Sandboxes at Daytona, or rather at ours, which refuses, forgets to answer and breaks off as theirs may.

use crate::support::{
    self, id, marked, patiently, until, until_begun, until_gone, until_ready, variables, wish, worker,
};
use kit::daytona::{self, Mishap, Operation, Trouble};
use kit::seed;
use providers::daytona::{Daytona, Options, WorkerSource};
use providers::{Asked, Failure, FailureClass, Gone, SandboxProvider, State, Wish};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

fn provider_of_file(fake: &daytona::Daytona, folder: &TempDir) -> Daytona {
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
    let provider = provider_of_file(&fake, &folder);
    (fake, provider, folder)
}

fn busy(header: &str) -> Mishap {
    Mishap::Busy { header: header.to_owned(), secs: 7 }
}

#[tokio::test]
async fn daytona_keeps_the_promises_of_a_sandbox() {
    let delay = Duration::from_millis(150);
    let options = daytona::Options { starts_after: delay, ends_after: delay, ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    support::keeps_its_promises(&provider, "daytona-promises").await;
    assert_eq!(fake.sandboxes().len(), 1);
    assert_eq!(fake.processes("box-1"), [0; 0]);
}

#[tokio::test]
async fn a_sandbox_is_made_as_wished_and_without_a_secret() {
    let (fake, provider, _folder) = stage(daytona::Options::default()).await;
    let found = provider.create(&wish("box")).await.unwrap();
    provider.upload(&found).await.unwrap();
    provider.start(&found, &variables("daytona-secret")).await.unwrap();
    until_begun(&provider, &id("box"), "daytona-secret").await;
    let seen = &fake.sandboxes()[0];
    let expected = serde_json::json!({
        "name": "box", "snapshot": support::SNAPSHOT, "env": {}, "public": false,
        "autoStopInterval": 0, "ttlMinutes": 90,
        "labels": {"app": "sunaba", "plane": "here", "sandbox": "box", "task": "t1"},
    });
    assert_eq!(seen.wish, expected);
    assert_eq!(seen.commands.len(), 1);
    assert!(!seen.commands[0].contains(support::SECRET), "{:?}", seen.commands);
    let home = seen.commands[0].split('"').nth(1).unwrap().trim_end_matches("/start").to_owned();
    let left: Vec<_> = std::fs::read_dir(home).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.contains(&"variables".into()), "it was removed before the worker ran: {left:?}");
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_is_replaced_by_the_image_with_its_resources() {
    let options = daytona::Options { snapshots: Vec::new(), ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    provider.create(&wish("box")).await.unwrap();
    let seen = fake.sandboxes();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].wish["buildInfo"]["dockerfileContent"], "FROM debian:12\n");
    assert_eq!([&seen[0].wish["cpu"], &seen[0].wish["memory"], &seen[0].wish["disk"]], [1, 4, 8]);
    let mut bare = wish("bare");
    bare.resources.image.clear();
    let refused = provider.create(&bare).await.unwrap_err();
    assert_eq!(refused.class, FailureClass::Refused);
    assert!(refused.message.contains("Snapshot"), "{}", refused.message);
}

#[tokio::test]
async fn a_sandbox_from_a_snapshot_is_given_what_was_asked_for_just_for_it() {
    let refused = Mishap::Refused { status: 400, message: "Not that much".to_owned() };
    for (mishap, memory_gb) in
        [(None, 6), (Some(Mishap::Lost), 6), (Some(Mishap::Broken), 6), (Some(refused), 2)]
    {
        let (fake, provider, _folder) = stage(daytona::Options::default()).await;
        let trouble =
            mishap.into_iter().fold(Trouble::none(), |trouble, it| trouble.once(Operation::Resize, it));
        fake.set_trouble(trouble);
        let asked = Asked { memory_gb: Some(6), cpu: Some(1) };
        let wish = Wish { asked, ..wish("box") };
        let found = patiently("a sandbox", || provider.create(&wish)).await;
        let made_of = found.made_of.unwrap();
        assert_eq!((made_of.memory_gb, made_of.cpu, made_of.disk_gb), (Some(memory_gb), Some(1), Some(5)));
        assert_eq!(made_of.snapshot.as_deref(), Some(support::SNAPSHOT));
        assert_eq!(fake.sandboxes().len(), 1);
    }
}

#[tokio::test]
async fn an_image_that_nobody_named_is_no_place_for_a_worker_that_should_be_in_it() {
    let fake =
        daytona::Daytona::start(daytona::Options { snapshots: Vec::new(), ..Default::default() }).await;
    let provider = with_worker(&fake, WorkerSource::InImage("/usr/bin/true".to_owned()));
    let mut unnamed = wish("box");
    unnamed.resources.image = domain::resources::DEFAULT_IMAGE.to_owned();
    let refused = provider.create(&unnamed).await.unwrap_err();
    assert_eq!(refused.class, FailureClass::Refused);
    assert!(refused.message.contains("not found"), "{refused}");
    assert_eq!(fake.sandboxes().len(), 0);
    let found = provider.create(&wish("box")).await.unwrap();
    assert_eq!(found.made_of.unwrap().image.as_deref(), Some("debian:12"), "somebody named that one");
    let folder = tempfile::tempdir().unwrap();
    unnamed.name = id("other");
    provider_of_file(&fake, &folder).create(&unnamed).await.unwrap();
    assert_eq!(fake.sandboxes().len(), 2, "a worker that is sent finds its place in any image");
}

#[tokio::test]
async fn a_worker_that_cannot_run_is_noticed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "#!/nowhere/at/all\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (worker, said) in
        [("/usr/local/bin/no-such-worker", "no worker to start at"), (broken.to_str().unwrap(), "127")]
    {
        let fake = daytona::Daytona::start(daytona::Options::default()).await;
        let provider = with_worker(&fake, WorkerSource::InImage(worker.to_owned()));
        let found = provider.create(&wish("box")).await.unwrap();
        // The answer to the start is a moment late, as it always is from afar.
        let late = Mishap::Slow(Duration::from_millis(300));
        let looks = Trouble::none().once(Operation::LookAtSession, Mishap::Slow(Duration::ZERO));
        fake.set_trouble(looks.once(Operation::LookAtSession, late));
        let failure = provider.start(&found, &variables("daytona-broken")).await.unwrap_err();
        assert!(failure.message.contains(said), "{failure}");
        assert_eq!(failure.class, FailureClass::Unreachable, "it is not the task's fault");
    }
}

#[tokio::test]
async fn a_failure_says_what_can_be_done_about_it() {
    let said = |status, message: &str| Mishap::Refused { status, message: message.to_owned() };
    let waits = FailureClass::Busy { retry_after_secs: Some(7) };
    let used_up = FailureClass::Busy { retry_after_secs: None };
    for (mishap, class) in [
        (busy("retry-after"), waits),
        (busy("retry-after-sandbox-create"), waits),
        (Mishap::Broken, FailureClass::Unreachable),
        (Mishap::Unheard, FailureClass::Unreachable),
        (said(503, "Back soon"), FailureClass::Unreachable),
        (said(408, "Too slow"), FailureClass::Unreachable),
        (said(403, "Total CPU limit exceeded"), used_up),
        (said(400, "Name is too long"), FailureClass::Refused),
        (said(401, "The key dtn_key is not valid"), FailureClass::Unreachable),
    ] {
        let trouble =
            Trouble::none().once(Operation::Create, mishap.clone()).once(Operation::List, mishap.clone());
        let (fake, provider, _folder) =
            stage(daytona::Options { trouble, ..daytona::Options::default() }).await;
        let check = |failure: Failure| {
            assert_eq!(failure.class, class, "{mishap:?}: {failure}");
            assert!(!failure.message.contains(fake.key()), "{failure}");
        };
        check(provider.create(&wish("box")).await.unwrap_err());
        check(provider.list().await.unwrap_err());
        assert_eq!(fake.living().len(), 0);
        provider.create(&wish("box")).await.unwrap();
        assert_eq!(provider.list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_sandbox_whose_making_nobody_answered_is_found_by_its_name() {
    for mishap in [Mishap::Lost, Mishap::BrokenAfterwards] {
        let trouble = Trouble::none().once(Operation::Create, mishap);
        let (fake, provider, _folder) =
            stage(daytona::Options { trouble, ..daytona::Options::default() }).await;
        let found = provider.create(&wish("box")).await.unwrap();
        assert_eq!(found.provider_id, fake.sandboxes()[0].id);
        assert_eq!(provider.create(&wish("box")).await.unwrap(), found);
        assert_eq!(fake.sandboxes().len(), 1);
    }
}

#[tokio::test]
async fn one_that_was_made_after_our_deadline_is_found_later() {
    let trouble = Trouble::none().once(Operation::Create, Mishap::Slow(Duration::from_secs(2)));
    let fake = daytona::Daytona::start(daytona::Options { trouble, ..daytona::Options::default() }).await;
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
    let failure = provider(Duration::from_millis(500)).create(&wish("box")).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable);
    // Nothing that follows is to run into a deadline.
    let provider = provider(Duration::from_secs(60));
    until_ready(&provider, &id("box")).await;
    provider.create(&wish("box")).await.unwrap();
    assert_eq!(fake.sandboxes().len(), 1);
    assert_eq!(fake.sandboxes()[0].wish["target"], "eu");
}

#[tokio::test]
async fn an_end_is_one_when_daytona_says_so() {
    let options = daytona::Options { ends_after: Duration::from_secs(3_600), ..daytona::Options::default() };
    let (fake, provider, _folder) = stage(options).await;
    let name = id("box");
    provider.create(&wish("box")).await.unwrap();
    fake.set_trouble(Trouble::none().once(Operation::Delete, Mishap::Lost));
    let failure = provider.destroy(&name).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable);
    assert_eq!(provider.destroy(&name).await.unwrap(), Gone::NotYet, "told again, it is still ending");
    assert_eq!(provider.find(&name).await.unwrap().unwrap().state, State::Going);
    fake.end("box");
    assert_eq!(provider.destroy(&name).await.unwrap(), Gone::Yes, "404 is what was wanted");
}

#[tokio::test]
async fn a_list_is_read_to_its_end_or_not_at_all() {
    let (fake, provider, _folder) = stage(daytona::Options { page: 3, ..daytona::Options::default() }).await;
    for number in 0..8 {
        let mut wish = wish(&format!("box-{number}"));
        if number == 4 {
            wish.plane = "elsewhere".to_owned();
        }
        provider.create(&wish).await.unwrap();
    }
    assert_eq!(provider.list().await.unwrap().len(), 7);
    assert_eq!(fake.calls()[&Operation::List], 3);
    // The second page is not answered.
    fake.set_trouble(
        Trouble::none()
            .once(Operation::List, Mishap::Slow(Duration::ZERO))
            .once(Operation::List, Mishap::Broken),
    );
    assert_eq!(provider.list().await.unwrap_err().class, FailureClass::Unreachable);
}

#[tokio::test]
async fn whatever_answer_of_the_start_is_lost_one_worker_runs() {
    let operations = [
        Operation::Find,
        Operation::Execute,
        Operation::Upload,
        Operation::OpenSession,
        Operation::LookAtSession,
        Operation::RunInSession,
    ];
    for operation in operations {
        for mishap in [Mishap::Lost, Mishap::Broken, Mishap::BrokenAfterwards, busy("retry-after")] {
            let (fake, provider, _folder) = stage(daytona::Options::default()).await;
            let mark = format!("daytona-{operation:?}-{mishap:?}");
            let found = provider.create(&wish("box")).await.unwrap();
            provider.upload(&found).await.unwrap();
            fake.set_trouble(Trouble::none().once(operation, mishap));
            assert!(provider.start(&found, &variables(&mark)).await.is_err());
            provider.start(&found, &variables(&mark)).await.unwrap();
            let log = until_begun(&provider, &id("box"), &mark).await;
            assert_eq!(log.matches("begun").count(), 1, "{mark}");
            assert_eq!(fake.sandboxes()[0].commands.len(), 1, "{mark}");
            until_gone(&provider, &id("box")).await;
            assert_eq!(marked(&mark), [0; 0]);
        }
    }
}

#[tokio::test]
async fn a_session_whose_shell_is_gone_is_opened_again() {
    let (fake, provider, _folder) = stage(daytona::Options::default()).await;
    let found = provider.create(&wish("box")).await.unwrap();
    provider.upload(&found).await.unwrap();
    let gone = Mishap::Refused { status: 410, message: "shell has exited".to_owned() };
    fake.set_trouble(Trouble::none().once(Operation::RunInSession, gone));
    let failure = provider.start(&found, &variables("daytona-shell")).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Unreachable, "the next time is better");
    provider.start(&found, &variables("daytona-shell")).await.unwrap();
    until_begun(&provider, &id("box"), "daytona-shell").await;
    assert_eq!(fake.calls()[&Operation::CloseSession], 1);
}

#[tokio::test]
async fn whoever_goes_on_asking_gets_a_sandbox_and_is_rid_of_it_whatever_goes_wrong() {
    seed::each(0..20, async |seed| {
        let short = Duration::from_millis(20);
        let trouble = Trouble::none().by_dice(seed, 30);
        let options = daytona::Options {
            trouble,
            starts_after: short,
            ends_after: short,
            ..daytona::Options::default()
        };
        let (fake, provider, _folder) = stage(options).await;
        let (name, wish, mark) = (id("box"), wish("box"), format!("daytona-dice-{seed}"));
        let variables = variables(&mark);
        patiently("a sandbox", || provider.create(&wish)).await;
        let ready = || async { provider.find(&name).await.ok()?.filter(|found| found.state == State::Ready) };
        let found = until("a sandbox that is ready", ready).await;
        patiently("the worker's program", || provider.upload(&found)).await;
        patiently("the worker", || provider.start(&found, &variables)).await;
        let gone = || async { (provider.destroy(&name).await == Ok(Gone::Yes)).then_some(()) };
        until("its end", gone).await;
        assert_eq!(fake.sandboxes().len(), 1);
        assert_eq!(fake.living().len(), 0);
        assert_eq!(marked(&mark), [0; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_port_has_a_token_that_is_not_shown_by_accident() {
    let (_fake, provider, _folder) = stage(daytona::Options::default()).await;
    provider.create(&wish("box")).await.unwrap();
    let link = provider.preview(&id("box"), 8080).await.unwrap().unwrap();
    assert!(link.url.starts_with("https://8080-"), "{link:?}");
    assert_eq!(link.token.as_deref(), Some("preview-token"));
    assert!(!format!("{link:?} {provider:?}").contains("preview-token"));
    assert!(!format!("{provider:?}").contains("dtn_key"));
}
