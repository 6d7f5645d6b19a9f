use super::*;
use proptest::prelude::*;
use serde_json::json;

const ROOT: &str = "/workspace";

fn from_claude(result: Value) -> Option<FileChange> {
    FileChange::from_claude(&result, Path::new(ROOT))
}

#[test]
fn created_file_has_only_added_lines() {
    // As printed by the CLI.
    let change = from_claude(json!({
        "type": "create", "filePath": "/workspace/hello.txt", "content": "hi\n", "structuredPatch": [],
        "originalFile": null, "userModified": false
    }));
    let change = change.unwrap();
    assert_eq!((change.path.as_str(), &change.change), ("hello.txt", &Change::Created));
    assert_eq!((change.lines_added, change.lines_removed), (1, 0));
    assert_eq!(change.unified, "--- /dev/null\n+++ b/hello.txt\n@@ -0,0 +1 @@\n+hi\n");
}

#[test]
fn edit_is_a_diff_of_the_texts() {
    let change = from_claude(json!({
        "filePath": "/workspace/src/main.go", "oldString": "\tb", "newString": "\tB", "replaceAll": false,
        "originalFile": "a\n\tb\nc\n\tb\n", "userModified": false,
        // The patch is for display and has no tabs.
        "structuredPatch": [{"oldStart": 1, "oldLines": 4, "newStart": 1, "newLines": 4,
            "lines": [" a", "-  b", "+  B", " c", "   b"]}]
    }));
    let change = change.unwrap();
    assert_eq!(
        change.unified,
        "--- a/src/main.go\n+++ b/src/main.go\n@@ -1,4 +1,4 @@\n a\n-\tb\n+\tB\n c\n \tb\n"
    );
    assert_eq!(change.change, Change::Modified);
    assert_eq!((change.lines_added, change.lines_removed), (1, 1));
    assert_eq!(change.fingerprint, Some(Fingerprint::of(b"a\n\tB\nc\n\tb\n")));
}

#[test]
fn replace_all_changes_every_occurrence() {
    let change = from_claude(json!({
        "filePath": "/workspace/a", "oldString": "x", "newString": "y", "replaceAll": true,
        "originalFile": "x\nx\n", "structuredPatch": []
    }));
    assert_eq!(change.unwrap().lines_added, 2);
}

#[test]
fn patch_is_used_if_the_texts_are_unknown() {
    let patch = json!([{"oldStart": 7, "oldLines": 2, "newStart": 7, "newLines": 3,
        "lines": [" a", "-b", "+c", "+d", "\\ No newline at end of file"]}]);
    for result in [
        json!({"filePath": "/workspace/a", "oldString": "b", "newString": "c", "originalFile": null,
            "structuredPatch": patch}),
        json!({"filePath": "/workspace/a", "oldString": "b", "newString": "other", "originalFile": "a\nb",
            "userModified": true, "structuredPatch": patch}),
    ] {
        let change = from_claude(result).unwrap();
        assert_eq!(
            change.unified,
            "--- a/a\n+++ b/a\n@@ -7,2 +7,3 @@\n a\n-b\n+c\n+d\n\\ No newline at end of file\n"
        );
        assert_eq!((change.lines_added, change.lines_removed, change.emitted()), (2, 1, None));
    }
}

#[test]
fn other_tool_results_are_not_changes() {
    for result in [
        json!({"stdout": "slept", "stderr": "", "interrupted": false}),
        json!({"type": "text", "file": {"filePath": "/workspace/a", "content": "x"}}),
        json!({"filePath": "/workspace/a", "type": "update", "content": "x", "originalFile": "x",
            "structuredPatch": []}),
        json!("Error: no such file"),
        json!(null),
        json!({"filePath": "/workspace/a", "structuredPatch": [{"lines": 3}]}),
    ] {
        assert_eq!(from_claude(result.clone()), None, "{result}");
    }
}

#[test]
fn paths_outside_the_workspace_stay_absolute() {
    assert_eq!(relative("/workspace/a/b", Path::new(ROOT)), "a/b");
    assert_eq!(relative("/etc/hosts", Path::new(ROOT)), "/etc/hosts");
    assert_eq!(relative("/workspace2/a", Path::new(ROOT)), "/workspace2/a");
    assert_eq!(relative("/workspace", Path::new(ROOT)), "/workspace");
}

#[test]
fn deletions_and_binary_files_are_recognized() {
    let deleted = FileChange::from_texts("a", Some("x\ny\n"), None).unwrap();
    assert_eq!((&deleted.change, deleted.lines_removed), (&Change::Deleted, 2));
    assert!(deleted.unified.starts_with("--- a/a\n+++ /dev/null\n"));
    let binary = FileChange::from_texts("a", Some("x"), Some("\0")).unwrap();
    assert!(binary.binary && binary.unified.is_empty());
}

#[test]
fn long_diff_has_a_short_preview() {
    let text = "a line of some words\n".repeat(1_000);
    let size = FileChange::from_texts("a", None, Some(&text)).unwrap().unified.len();
    let event = FileChange::from_texts("a", None, Some(&text)).unwrap().into_event(3, Some("toolu_1"));
    let preview = event.data["diff_preview"].as_str().unwrap();
    assert!(preview.lines().count() == 100 && preview.chars().count() <= 5_000);
    assert_eq!(event.data["full_diff"].as_str().unwrap().len(), size);
    assert_eq!(event.data["full_diff_size"], size);
    assert_eq!((&event.data["turn"], &event.data["tool_use_id"]), (&json!(3), &json!("toolu_1")));
    assert_eq!((&event.data["change_type"], &event.data["lines_added"]), (&json!("created"), &json!(1_000)));

    let wide = FileChange::from_texts("a", None, Some(&"ü".repeat(MAX_FIELD_BYTES))).unwrap();
    let event = wide.into_event(0, None);
    assert_eq!(event.data["diff_preview"].as_str().unwrap().chars().count(), 5_000);
    assert_eq!((&event.data["full_diff"], &event.data["full_diff_available"]), (&json!(null), &json!(false)));
    assert!(event.data["full_diff_size"].as_u64().unwrap() > MAX_FIELD_BYTES as u64);
}

#[test]
fn renamed_file_has_its_previous_path() {
    let moved = FileChange::without_diff("b", Change::Renamed { from: "a".to_owned() }).into_event(1, None);
    assert_eq!(
        (moved.data["change_type"].as_str(), moved.data["previous_path"].as_str()),
        (Some("renamed"), Some("a"))
    );
}

proptest! {
    #[test]
    fn line_counts_match_the_diff(old in "([ab]{0,2}\n?){0,12}", new in "([ab]{0,2}\n?){0,12}") {
        if let Some(change) = FileChange::from_texts("x", Some(&old), Some(&new)) {
            let body: Vec<&str> = change.unified.lines().skip(2).collect();
            let count = |mark| body.iter().filter(|line| line.starts_with(mark)).count() as u64;
            prop_assert_eq!((count('+'), count('-')), (change.lines_added, change.lines_removed));
        } else {
            prop_assert_eq!(old, new);
        }
    }
}
