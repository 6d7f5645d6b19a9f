use super::*;
use crate::confinement::unconfined;
use crate::workspace::diff::Change;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, dir: &str, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid"];
        let output = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(self.root().join(dir))
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn start(&self) -> Snapshots {
        let mut snapshots = Snapshots::start(&self.root(), &self.dir.path().join("state"), &unconfined());
        assert_eq!(snapshots.ready().await, Changes::default());
        snapshots
    }
}

/// One line per change.
fn short(changes: &Changes) -> Vec<String> {
    assert_eq!((&changes.disabled, changes.omitted), (&None, 0));
    let line = |change: &FileChange| {
        let what = match &change.change {
            Change::Created => "created".to_owned(),
            Change::Modified => "modified".to_owned(),
            Change::Deleted => "deleted".to_owned(),
            Change::Renamed { from } => format!("renamed from {from}"),
        };
        format!("{} {what} +{} -{}", change.path, change.lines_added, change.lines_removed)
    };
    changes.files.iter().map(line).collect()
}

#[tokio::test]
async fn changes_of_commands_are_reported_once() {
    let fixture = Fixture::new();
    fixture.write("kept", "1\n2\n3\n");
    fixture.write("edited", "1\n2\n3\n");
    fixture.write("gone", "x\n");
    fixture.write("from", "a\nb\nc\nd\n");
    let mut snapshots = fixture.start().await;
    assert_eq!(snapshots.scan(&[]).await, Changes::default());

    fixture.write("edited", "1\ntwo\n3\n");
    fixture.write("some/new ö", "n\n");
    fs::remove_file(fixture.root().join("gone")).unwrap();
    fs::rename(fixture.root().join("from"), fixture.root().join("to")).unwrap();
    let changes = snapshots.scan(&[]).await;
    assert_eq!(
        short(&changes),
        [
            "edited modified +1 -1",
            "gone deleted +0 -1",
            "some/new ö created +1 -0",
            "to renamed from from +0 -0"
        ]
    );
    assert_eq!(changes.files[0].unified, "--- a/edited\n+++ b/edited\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n");
    assert!(changes.files[1].unified.contains("+++ /dev/null\n"), "{}", changes.files[1].unified);
    assert_eq!(snapshots.scan(&[]).await, Changes::default());
}

#[tokio::test]
async fn agent_repository_is_not_touched() {
    let fixture = Fixture::new();
    fixture.git("", &["init", "--quiet"]);
    fixture.write("a", "1\n");
    fixture.git("", &["add", "a"]);
    fixture.git("", &["commit", "--quiet", "-m", "first"]);
    let state = |fixture: &Fixture| {
        let index = fs::read(fixture.root().join(".git/index")).unwrap();
        (index, fixture.git("", &["count-objects", "-v"]), fixture.git("", &["for-each-ref"]))
    };
    let mut snapshots = fixture.start().await;
    let before = state(&fixture);
    fixture.write("a", "2\n");
    fixture.write("b", "2\n");
    assert_eq!(short(&snapshots.scan(&[]).await), ["a modified +1 -1", "b created +1 -0"]);
    assert_eq!(state(&fixture), before);
    // A commit changes no file.
    fixture.git("", &["add", "-A"]);
    fixture.git("", &["commit", "--quiet", "-m", "second"]);
    assert_eq!(snapshots.scan(&[]).await, Changes::default());
}

#[tokio::test]
async fn generated_and_ignored_files_are_not_reported() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "/logs/\n");
    let mut snapshots = fixture.start().await;
    for path in
        ["logs/a", "node_modules/x/index.js", "a/__pycache__/b.pyc", "target/debug/x", "env [1]/bin/python"]
    {
        fixture.write(path, "x\n");
    }
    fixture.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    fixture.write("env [1]/pyvenv.cfg", "home = /usr\n");
    fixture.write("build/own.sh", "x\n");
    fixture.write("CACHEDIR.TAG", "of the workspace\n");
    assert_eq!(
        short(&snapshots.scan(&[]).await),
        ["CACHEDIR.TAG created +1 -0", "build/own.sh created +1 -0"]
    );
    fixture.write("target/debug/y", "x\n");
    fixture.write("env [1]/bin/pip", "x\n");
    assert_eq!(snapshots.scan(&[]).await, Changes::default());
}

#[tokio::test]
async fn nested_repositories_pipes_and_links_are_handled() {
    let fixture = Fixture::new();
    for nested in ["empty", "full"] {
        fixture.write(&format!("{nested}/file"), "x\n");
        fixture.git(nested, &["init", "--quiet"]);
    }
    fixture.git("full", &["add", "-A"]);
    fixture.git("full", &["commit", "--quiet", "-m", "first"]);
    fixture.write("folder/x", "1\n");
    fixture.write("plain", "1\n");
    let mut snapshots = fixture.start().await;

    assert!(Command::new("mkfifo").arg(fixture.root().join("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("plain", fixture.root().join("link")).unwrap();
    // A file becomes a directory, and a directory becomes a link.
    fs::remove_file(fixture.root().join("plain")).unwrap();
    fixture.write("plain/inside", "2\n");
    fs::rename(fixture.root().join("folder"), fixture.root().join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", fixture.root().join("folder")).unwrap();
    fixture.write("full/file", "changed\n");
    let changes = snapshots.scan(&[]).await;
    let paths: Vec<&str> = changes.files.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["folder", "link", "moved/x", "plain", "plain/inside"]);
    // The next scan still works.
    fixture.write("moved/x", "3\n");
    assert_eq!(short(&snapshots.scan(&[]).await), ["moved/x modified +1 -1"]);
}

#[tokio::test]
async fn large_and_binary_files_have_no_diff() {
    let fixture = Fixture::new();
    fixture.write("grows", "small\n");
    let mut snapshots = fixture.start().await;
    let large = "x\n".repeat(1_100_000);
    fixture.write("large", &large);
    fixture.write("grows", &large);
    fs::write(fixture.root().join("picture"), b"\x89PNG\0\0").unwrap();
    let changes = snapshots.scan(&[]).await;
    assert_eq!(short(&changes), ["grows modified +0 -0", "picture created +0 -0", "large created +0 -0"]);
    assert!(changes.files.iter().all(|change| change.binary && change.unified.is_empty()));
    assert_eq!(snapshots.scan(&[]).await, Changes::default());
    fs::remove_file(fixture.root().join("large")).unwrap();
    assert_eq!(short(&snapshots.scan(&[]).await), ["large deleted +0 -0"]);
}

#[tokio::test]
async fn emitted_change_is_reported_again_only_if_it_changed() {
    let fixture = Fixture::new();
    let mut snapshots = fixture.start().await;
    let write = |text: &str| {
        fixture.write("a", text);
        FileChange::from_texts("a", None, Some(text)).unwrap().emitted().unwrap()
    };
    let first = write("1\n");
    assert_eq!(snapshots.scan(&[first]).await, Changes::default());
    let (second, third) = (write("2\n"), write("3\n"));
    assert_eq!(snapshots.scan(&[second, third.clone()]).await, Changes::default());
    // A formatter ran after the tool.
    fixture.write("a", "3 \n");
    assert_eq!(short(&snapshots.scan(&[third]).await), ["a modified +1 -1"]);
}

#[tokio::test]
async fn changes_while_no_worker_ran_are_reported() {
    let fixture = Fixture::new();
    fixture.write("a", "1\n");
    let mut snapshots = fixture.start().await;
    fixture.write("a", "2\n");
    assert_eq!(short(&snapshots.scan(&[]).await), ["a modified +1 -1"]);
    drop(snapshots);
    fixture.write("a", "2\n3\n");
    // Left by a killed git.
    fs::write(fixture.dir.path().join("state/snapshots/index.lock"), "").unwrap();
    let mut snapshots = fixture.start().await;
    assert_eq!(short(&snapshots.scan(&[]).await), ["a modified +1 -0"]);
}

/// With git, the directory of the repository belongs to the agent's user, which may put links there.
#[tokio::test]
async fn links_in_the_repository_lead_the_worker_to_no_other_file() {
    let fixture = Fixture::new();
    let path = |name: &str| fixture.dir.path().join(name);
    fs::create_dir(path("outside")).unwrap();
    fs::write(path("outside/exclude"), "untouched").unwrap();
    let repository = path("state/snapshots");
    let plant = |link: &str, target: &str| {
        let link = repository.join(link);
        let _ = fs::remove_file(&link).or_else(|_| fs::remove_dir_all(&link));
        std::os::unix::fs::symlink(path(target), link).unwrap();
    };
    drop(fixture.start().await);
    for name in ["last.json", "last.json.next", "last-snapshot.json", "last-snapshot.json.next"] {
        plant(name, "outside/exclude");
    }
    let mut snapshots = fixture.start().await;
    fixture.write("a", "1\n");
    assert_eq!(short(&snapshots.scan(&[]).await), ["a created +1 -0"]);
    plant("info/exclude", "outside/exclude");
    fixture.write("cache/CACHEDIR.TAG", "");
    assert_eq!(snapshots.scan(&[]).await, Changes::default(), "this scan fails");
    for (link, target) in [("info/exclude", "outside/exclude"), ("info", "outside")] {
        plant(link, target);
        let mut snapshots =
            Snapshots::start(&fixture.root(), &fixture.dir.path().join("state"), &unconfined());
        assert!(snapshots.ready().await.disabled.is_some(), "{link}");
    }
    assert_eq!(fs::read_to_string(path("outside/exclude")).unwrap(), "untouched");
    let names: Vec<_> =
        fs::read_dir(path("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["exclude"]);
}

#[tokio::test]
async fn state_directory_in_the_workspace_is_ignored() {
    let fixture = Fixture::new();
    let mut snapshots = Snapshots::start(&fixture.root(), &fixture.root().join(".state"), &unconfined());
    snapshots.ready().await;
    fixture.write("a", "1\n");
    assert_eq!(short(&snapshots.scan(&[]).await), ["a created +1 -0"]);
}

#[tokio::test]
async fn slow_scans_are_disabled_and_reported_once() {
    let fixture = Fixture::new();
    let mut snapshots = Snapshots::start_with(
        &fixture.root(),
        &fixture.dir.path().join("state"),
        &unconfined(),
        Duration::from_nanos(1),
    );
    snapshots.ready().await;
    fixture.write("a", "1\n");
    let events = snapshots.scan(&[]).await.into_events(1, None);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event_type, "workspace.snapshots_off");
    assert!(events[0].data["reason"].as_str().unwrap().contains("took more than"), "{events:?}");
    assert_eq!(snapshots.scan(&[]).await, Changes::default());
}

#[tokio::test]
async fn missing_workspace_disables_scans() {
    let dir = tempfile::tempdir().unwrap();
    let mut snapshots = Snapshots::start(&dir.path().join("none"), &dir.path().join("state"), &unconfined());
    assert!(snapshots.ready().await.disabled.is_some());
}

#[tokio::test]
async fn at_most_a_thousand_changes_are_reported() {
    let fixture = Fixture::new();
    let mut snapshots = fixture.start().await;
    for number in 0..1_003 {
        fixture.write(&format!("files/{number}"), "x\n");
    }
    let events = snapshots.scan(&[]).await.into_events(2, Some("toolu_1"));
    assert_eq!(events.len(), 1_001);
    assert_eq!(events[1_000].event_type, "workspace.changes_left_out");
    assert_eq!(events[1_000].data["count"], 3);
}
