use super::*;
use crate::workspace::diff::Change;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid"];
        let output = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(self.root().join(folder))
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn begin(&self) -> Snapshots {
        let mut snapshots = Snapshots::begin(&self.root(), &self.folder.path().join("state"));
        assert_eq!(snapshots.ready().await, Taken::default());
        snapshots
    }
}

/// What was found, in short.
fn short(taken: &Taken) -> Vec<String> {
    assert_eq!((&taken.off, taken.left_out), (&None, 0));
    let line = |change: &FileChange| {
        let what = match &change.change {
            Change::Created => "created".to_owned(),
            Change::Modified => "modified".to_owned(),
            Change::Deleted => "deleted".to_owned(),
            Change::Renamed { from } => format!("renamed from {from}"),
        };
        format!("{} {what} +{} -{}", change.path, change.lines_added, change.lines_removed)
    };
    taken.changes.iter().map(line).collect()
}

#[tokio::test]
async fn everything_a_command_does_is_found_and_told_once() {
    let world = World::new();
    world.write("kept", "1\n2\n3\n");
    world.write("edited", "1\n2\n3\n");
    world.write("gone", "x\n");
    world.write("from", "a\nb\nc\nd\n");
    let mut snapshots = world.begin().await;
    assert_eq!(snapshots.take(&[]).await, Taken::default());

    world.write("edited", "1\ntwo\n3\n");
    world.write("some/new ö", "n\n");
    fs::remove_file(world.root().join("gone")).unwrap();
    fs::rename(world.root().join("from"), world.root().join("to")).unwrap();
    let taken = snapshots.take(&[]).await;
    assert_eq!(
        short(&taken),
        [
            "edited modified +1 -1",
            "gone deleted +0 -1",
            "some/new ö created +1 -0",
            "to renamed from from +0 -0"
        ]
    );
    assert_eq!(taken.changes[0].unified, "--- a/edited\n+++ b/edited\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n");
    assert!(taken.changes[1].unified.contains("+++ /dev/null\n"), "{}", taken.changes[1].unified);
    assert_eq!(snapshots.take(&[]).await, Taken::default());
}

#[tokio::test]
async fn the_agents_repository_is_not_touched() {
    let world = World::new();
    world.git("", &["init", "--quiet"]);
    world.write("a", "1\n");
    world.git("", &["add", "a"]);
    world.git("", &["commit", "--quiet", "-m", "first"]);
    let state = |world: &World| {
        let index = fs::read(world.root().join(".git/index")).unwrap();
        (index, world.git("", &["count-objects", "-v"]), world.git("", &["for-each-ref"]))
    };
    let mut snapshots = world.begin().await;
    let before = state(&world);
    world.write("a", "2\n");
    world.write("b", "2\n");
    assert_eq!(short(&snapshots.take(&[]).await), ["a modified +1 -1", "b created +1 -0"]);
    assert_eq!(state(&world), before);
    // A commit changes no file.
    world.git("", &["add", "-A"]);
    world.git("", &["commit", "--quiet", "-m", "second"]);
    assert_eq!(snapshots.take(&[]).await, Taken::default());
}

#[tokio::test]
async fn what_is_generated_or_ignored_is_not_told() {
    let world = World::new();
    world.write(".gitignore", "/logs/\n");
    let mut snapshots = world.begin().await;
    for path in
        ["logs/a", "node_modules/x/index.js", "a/__pycache__/b.pyc", "target/debug/x", "env [1]/bin/python"]
    {
        world.write(path, "x\n");
    }
    world.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    world.write("env [1]/pyvenv.cfg", "home = /usr\n");
    world.write("build/own.sh", "x\n");
    world.write("CACHEDIR.TAG", "of the workspace\n");
    assert_eq!(
        short(&snapshots.take(&[]).await),
        ["CACHEDIR.TAG created +1 -0", "build/own.sh created +1 -0"]
    );
    world.write("target/debug/y", "x\n");
    world.write("env [1]/bin/pip", "x\n");
    assert_eq!(snapshots.take(&[]).await, Taken::default());
}

#[tokio::test]
async fn nested_repositories_pipes_and_links_break_nothing() {
    let world = World::new();
    for nested in ["empty", "full"] {
        world.write(&format!("{nested}/file"), "x\n");
        world.git(nested, &["init", "--quiet"]);
    }
    world.git("full", &["add", "-A"]);
    world.git("full", &["commit", "--quiet", "-m", "first"]);
    world.write("folder/x", "1\n");
    world.write("plain", "1\n");
    let mut snapshots = world.begin().await;

    assert!(Command::new("mkfifo").arg(world.root().join("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("plain", world.root().join("link")).unwrap();
    // A folder becomes a file, a file a folder, a folder a link.
    fs::remove_file(world.root().join("plain")).unwrap();
    world.write("plain/inside", "2\n");
    fs::rename(world.root().join("folder"), world.root().join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", world.root().join("folder")).unwrap();
    world.write("full/file", "changed\n");
    let taken = snapshots.take(&[]).await;
    let paths: Vec<&str> = taken.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["folder", "link", "moved/x", "plain", "plain/inside"]);
    // And the next look still works.
    world.write("moved/x", "3\n");
    assert_eq!(short(&snapshots.take(&[]).await), ["moved/x modified +1 -1"]);
}

#[tokio::test]
async fn large_files_and_no_text_are_told_without_a_diff() {
    let world = World::new();
    world.write("grows", "small\n");
    let mut snapshots = world.begin().await;
    let large = "x\n".repeat(1_100_000);
    world.write("large", &large);
    world.write("grows", &large);
    fs::write(world.root().join("picture"), b"\x89PNG\0\0").unwrap();
    let taken = snapshots.take(&[]).await;
    assert_eq!(short(&taken), ["grows modified +0 -0", "picture created +0 -0", "large created +0 -0"]);
    assert!(taken.changes.iter().all(|change| change.binary && change.unified.is_empty()));
    assert_eq!(snapshots.take(&[]).await, Taken::default());
    fs::remove_file(world.root().join("large")).unwrap();
    assert_eq!(short(&snapshots.take(&[]).await), ["large deleted +0 -0"]);
}

#[tokio::test]
async fn what_a_tool_told_is_not_told_again_unless_it_changed_since() {
    let world = World::new();
    let mut snapshots = world.begin().await;
    let write = |text: &str| {
        world.write("a", text);
        FileChange::from_texts("a", None, Some(text)).unwrap().told().unwrap()
    };
    let first = write("1\n");
    assert_eq!(snapshots.take(&[first]).await, Taken::default());
    let (second, third) = (write("2\n"), write("3\n"));
    assert_eq!(snapshots.take(&[second, third.clone()]).await, Taken::default());
    // A formatter came after the tool.
    world.write("a", "3 \n");
    assert_eq!(short(&snapshots.take(&[third]).await), ["a modified +1 -1"]);
}

#[tokio::test]
async fn what_changed_while_no_worker_ran_is_told_by_the_next() {
    let world = World::new();
    world.write("a", "1\n");
    let mut snapshots = world.begin().await;
    world.write("a", "2\n");
    assert_eq!(short(&snapshots.take(&[]).await), ["a modified +1 -1"]);
    drop(snapshots);
    world.write("a", "2\n3\n");
    // What a killed git left.
    fs::write(world.folder.path().join("state/snapshots/index.lock"), "").unwrap();
    let mut snapshots = world.begin().await;
    assert_eq!(short(&snapshots.take(&[]).await), ["a modified +1 -0"]);
}

#[tokio::test]
async fn a_state_folder_in_the_workspace_is_not_looked_at() {
    let world = World::new();
    let mut snapshots = Snapshots::begin(&world.root(), &world.root().join(".state"));
    snapshots.ready().await;
    world.write("a", "1\n");
    assert_eq!(short(&snapshots.take(&[]).await), ["a created +1 -0"]);
}

#[tokio::test]
async fn looks_that_take_too_long_are_given_up_and_that_is_told_once() {
    let world = World::new();
    let mut snapshots =
        Snapshots::begin_with(&world.root(), &world.folder.path().join("state"), Duration::from_nanos(1));
    snapshots.ready().await;
    world.write("a", "1\n");
    let events = snapshots.take(&[]).await.into_events(1, None);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event_type, "workspace.snapshots_off");
    assert!(events[0].data["reason"].as_str().unwrap().contains("took more than"), "{events:?}");
    assert_eq!(snapshots.take(&[]).await, Taken::default());
}

#[tokio::test]
async fn a_workspace_that_is_not_there_switches_looks_off() {
    let folder = tempfile::tempdir().unwrap();
    let mut snapshots = Snapshots::begin(&folder.path().join("none"), &folder.path().join("state"));
    assert!(snapshots.ready().await.off.is_some());
}

#[tokio::test]
async fn a_thousand_changes_are_told_and_the_rest_counted() {
    let world = World::new();
    let mut snapshots = world.begin().await;
    for number in 0..1_003 {
        world.write(&format!("files/{number}"), "x\n");
    }
    let events = snapshots.take(&[]).await.into_events(2, Some("toolu_1"));
    assert_eq!(events.len(), 1_001);
    assert_eq!(events[1_000].event_type, "workspace.changes_left_out");
    assert_eq!(events[1_000].data["count"], 3);
}
