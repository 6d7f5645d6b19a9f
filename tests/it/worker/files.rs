//! Reports of changed files.

use super::{Fixture, OPERATOR, command, data_of, git, text, tool, turn_end};
use contract::payloads::{AgentFileEdited, AgentToolCompleted, AgentToolUse, WorkerEventRefused};
use kit::model::Script;
use serde_json::{Value, json};

/// Commands that each change one file, with the expected report: path, change type, lines added and removed.
const CHANGES: [(&str, &str, &str, u64, u64); 7] = [
    ("rm doomed.txt", "doomed.txt", "deleted", 0, 2),
    ("git mv old.txt new.txt", "new.txt", "renamed", 0, 0),
    ("mv loose.txt moved.txt", "moved.txt", "renamed", 0, 0),
    ("printf 'a\\nb\\n' > made.txt", "made.txt", "created", 2, 0),
    ("printf 'a\\000b' > blob.bin", "blob.bin", "created", 0, 0),
    ("echo more >> edited.txt", "edited.txt", "modified", 1, 0),
    ("chmod +x tool.sh", "tool.sh", "modified", 0, 0),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_changes_are_reported_once_with_their_tool_use() {
    let fixture = Fixture::new(Script::new()).await;
    let folder = &fixture.home.workspace;
    for (name, content) in [
        ("doomed.txt", "one\ntwo\n"),
        ("old.txt", "a text that is long enough\nto be known again\n"),
        ("loose.txt", "another text that is moved\nwithout telling git\n"),
        ("edited.txt", "begin\n"),
        ("tool.sh", "echo\n"),
        (".gitignore", "target/\n"),
    ] {
        std::fs::write(folder.join(name), content).unwrap();
    }
    git(folder, &["init", "-q"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "begin"]);
    let mut steps: Vec<Value> =
        CHANGES.iter().flat_map(|(change, ..)| [command(change), turn_end()]).collect();
    steps.extend([
        command("mkdir target && echo x > target/built.txt"),
        tool("Edit", json!({"file_path": "edited.txt", "old_string": "more", "new_string": "less"})),
        text("All changed."),
    ]);
    let agent = fixture.script(&steps);
    let worker = fixture.start_worker(&[("AGENT", &agent)]);
    fixture.wait_for_event("agent.waiting").await;
    fixture.wait_for_first_scan().await;
    for (change, path, change_type, added, removed) in CHANGES {
        fixture.send_message("user_message", "go on").await;
        let event = fixture.wait_for(|edit: &AgentFileEdited| edit.file_path == path).await;
        let data = &event["event_data"];
        assert_eq!(data["change_type"], change_type, "{change}: {data}");
        let counts = (&data["lines_added"], &data["lines_removed"], &data["binary"]);
        assert_eq!(counts, (&json!(added), &json!(removed), &json!(path == "blob.bin")), "{change}: {data}");
        let log = fixture.log().await;
        let calls: Vec<AgentToolUse> = data_of(&log);
        let call = calls.iter().find(|call| call.tool_input["command"] == change).unwrap();
        assert_eq!(data["tool_use_id"], call.tool_use_id, "{change}: {data}");
        assert_eq!(data["turn"], call.place.turn, "{change}: {data}");
    }
    let last = fixture.send_message("user_message", "go on").await;
    fixture.wait_for_receipt(&last, "completed").await;
    // Pending file reports are sent before the final event.
    worker.terminate().await;
    let log = fixture.log().await;
    let edits: Vec<AgentFileEdited> = data_of(&log);
    let reported: Vec<(&str, &str)> =
        edits.iter().map(|edit| (edit.file_path.as_str(), edit.change_type.as_str())).collect();
    let expected: Vec<(&str, &str)> = CHANGES
        .iter()
        .map(|(_, path, change_type, ..)| (*path, *change_type))
        .chain([("edited.txt", "modified")])
        .collect();
    assert_eq!(reported, expected);
    let edit = edits.last().unwrap();
    assert!(edit.full_diff.as_ref().unwrap().ends_with("-more\n+less\n"), "{edit:?}");
    let renamed: Vec<&str> = edits.iter().filter_map(|edit| edit.previous_path.as_deref()).collect();
    assert_eq!(renamed, ["old.txt", "loose.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_diff_is_previewed_and_stored_by_reference() {
    let fixture = Fixture::new(Script::new()).await;
    let line = "a line of a large file\n";
    let large = line.repeat(300 * 1024 / line.len());
    let huge = line.repeat(1024 * 1024 / line.len());
    let agent = fixture.script(&[
        tool("Write", json!({"file_path": "large.txt", "content": large})),
        turn_end(),
        tool("Write", json!({"file_path": "huge.txt", "content": huge})),
        text("Written."),
    ]);
    let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Write much")]);
    let event = fixture.wait_for(|edit: &AgentFileEdited| edit.file_path == "large.txt").await;
    let data = &event["event_data"];
    assert!(data["diff_preview"].as_str().unwrap().chars().count() <= 5_000, "{data}");
    assert!(data.get("full_diff").is_none(), "pages stay small");
    assert_eq!(event["body"]["omitted"], json!(["full_diff"]), "{}", event["body"]);
    let body = fixture.plane.get(event["body"]["href"].as_str().unwrap(), OPERATOR).await.ok();
    let diff = body["full_diff"].as_str().unwrap();
    assert_eq!(diff.len() as u64, data["full_diff_size"].as_u64().unwrap());
    assert_eq!(diff.matches(&format!("+{line}")).count() as u64, data["lines_added"].as_u64().unwrap());

    let last = fixture.send_message("user_message", "go on").await;
    fixture.wait_for_receipt(&last, "completed").await;
    let event = fixture.wait_for(|edit: &AgentFileEdited| edit.file_path == "huge.txt").await;
    let data = &event["event_data"];
    assert_eq!(data["full_diff_available"], false, "a truncated diff is marked: {data}");
    assert!(data["full_diff_size"].as_u64().unwrap() > 1024 * 1024, "{data}");
    assert_eq!(data["lines_added"], 1024 * 1024 / line.len());
    worker.terminate().await;
    let log = fixture.log().await;
    assert_eq!(data_of::<AgentFileEdited>(&log).len(), 2, "each change is reported once");
    assert_eq!(data_of::<AgentToolCompleted>(&log).len(), 2);
    assert!(data_of::<WorkerEventRefused>(&log).is_empty());
}

/// A root worker leaves such a file to its user. Its git, with the agent's user, cannot read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_of_another_user_in_the_workspace_does_not_stop_reports() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let fixture = Fixture::new(Script::new()).await;
    let private = fixture.home.workspace.join("private.txt");
    std::fs::write(&private, "of another user\n").unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let (is_root, owner) = (user == 0, if user == 0 { 1000 } else { user });
    if is_root {
        chown(&private, Some(owner), Some(owner)).unwrap();
    }
    let agent = fixture.script(&[command("cat private.txt; echo x > made.txt"), text("Done.")]);
    let worker = fixture.start_worker(&[("AGENT", &agent), ("ISOLATION", "landlock")]);
    fixture.wait_for_event("agent.waiting").await;
    fixture.wait_for_first_scan().await;
    fixture.send_message("user_message", "go on").await;
    fixture.wait_for(|edit: &AgentFileEdited| edit.file_path == "made.txt").await;
    worker.terminate().await;
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert_eq!(log.contains("of another user"), !is_root, "the agent has no access: {log}");
    assert_eq!(private.metadata().unwrap().uid(), owner);
    assert!(!log.contains("workspace.snapshots_off"), "{log}");
}
