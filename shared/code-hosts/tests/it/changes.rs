//! The contract of [`CodeHost`]: comparisons.

use crate::for_every_code_host;
use crate::support::{Fixture, Kind, failed};
use code_hosts::{Comparison, FileChange, FileStatus, MAX_FILES, MAX_PATCH_BYTES, Reason};
use std::fs;

for_every_code_host! {
    both_sides_are_counted,
    every_kind_of_change_is_described,
    only_changes_of_the_head_are_compared,
    large_patches_are_cut,
    many_files_are_cut,
    unknown_sides_are_not_found,
}

fn change<'a>(comparison: &'a Comparison, path: &str) -> &'a FileChange {
    let found = comparison.files.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("{path} is not in {:?}", comparison.files))
}

async fn both_sides_are_counted(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.push("feature/x", &[("one", "1")], "First");
    let head = fixture.push("feature/x", &[("two", "2")], "Second");
    let base = fixture.push_main(&[("theirs", "x")], "Meanwhile");
    for (left, right) in [("main", "feature/x"), (base.as_str(), head.as_str()), ("main", &head)] {
        let compared = fixture.host.compare(left, right).await.unwrap();
        assert_eq!((compared.ahead, compared.behind), (2, 1));
        assert_eq!(compared.files.len(), 2);
    }
    let same = fixture.host.compare("main", "main").await.unwrap();
    assert_eq!(same, Comparison { ahead: 0, behind: 0, files: Vec::new(), files_cut: false });
}

async fn every_kind_of_change_is_described(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.push_main(&[("old name", "a\nb\nc\nd\ne\nf\ng\n"), ("gone", "x\ny\n"), ("empty", "")], "Prepare");
    fixture.clone.run(&["fetch", "--quiet", "origin"]);
    fixture.clone.run(&["checkout", "--quiet", "-b", "feature/x", "origin/main"]);
    let clone = &fixture.clone.0;
    fs::rename(clone.join("old name"), clone.join("neuer Näme")).unwrap();
    fs::remove_file(clone.join("gone")).unwrap();
    fs::write(clone.join("binary"), [0, 159, 146, 150, 0, 1]).unwrap();
    let lines = fixture.clone.read("lines").replace("line 20\n", "line twenty\n");
    let neuer = "a\nb\nc\nd\ne\nf\nG\n";
    fixture.push(
        "feature/x",
        &[("lines", &lines), ("neuer Näme", neuer), ("dir/added", "one\n-- two\n")],
        "Work",
    );

    let compared = fixture.host.compare("main", "feature/x").await.unwrap();
    let paths: Vec<&str> = compared.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["binary", "dir/added", "gone", "lines", "neuer Näme"]);
    let added = change(&compared, "dir/added");
    assert_eq!((added.status, added.additions, added.deletions), (FileStatus::Added, 2, 0));
    assert_eq!(added.patch.as_deref(), Some("@@ -0,0 +1,2 @@\n+one\n+-- two"));
    let gone = change(&compared, "gone");
    assert_eq!((gone.status, gone.additions, gone.deletions), (FileStatus::Removed, 0, 2));
    let lines = change(&compared, "lines");
    assert_eq!((lines.status, lines.additions, lines.deletions), (FileStatus::Modified, 1, 1));
    let patch = lines.patch.as_deref().unwrap();
    assert!(patch.starts_with("@@ -17,7 +17,7 @@"), "{patch}");
    assert!(patch.ends_with(" line 19\n-line 20\n+line twenty\n line 21\n line 22\n line 23"), "{patch}");
    let renamed = change(&compared, "neuer Näme");
    assert_eq!((renamed.status, renamed.additions, renamed.deletions), (FileStatus::Renamed, 1, 1));
    assert_eq!(renamed.previous_path.as_deref(), Some("old name"));
    assert!(renamed.patch.as_deref().unwrap().contains("-g\n+G"), "{renamed:?}");
    let binary = change(&compared, "binary");
    assert_eq!((binary.status, binary.additions, &binary.patch), (FileStatus::Added, 0, &None));
    assert!(compared.files.iter().all(|file| !file.patch_cut));
}

async fn only_changes_of_the_head_are_compared(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.push("feature/x", &[("mine", "x")], "Work");
    fixture.push_main(&[("theirs", "x"), ("lines", "none\n")], "Meanwhile");
    let compared = fixture.host.compare("main", "feature/x").await.unwrap();
    assert_eq!(compared.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["mine"]);
}

async fn large_patches_are_cut(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let line = "0123456789".repeat(10) + "\n";
    let (large, one_line) = (line.repeat(2_000), "ü".repeat(MAX_PATCH_BYTES));
    let huge = line.repeat(12_000);
    let files =
        [("a large", large.as_str()), ("b one line", &one_line), ("c huge", &huge), ("d small", "x\n")];
    fixture.push("feature/x", &files, "Work");
    let compared = fixture.host.compare("main", "feature/x").await.unwrap();
    let large = change(&compared, "a large");
    let patch = large.patch.as_deref().unwrap();
    assert!(large.patch_cut && patch.len() <= MAX_PATCH_BYTES && patch.len() > MAX_PATCH_BYTES - 200);
    assert!(patch.ends_with('9'), "it ends with a whole line");
    assert_eq!(large.additions, 2_000);
    for path in ["b one line", "c huge"] {
        let cut = change(&compared, path);
        assert!(
            cut.patch_cut && cut.patch.as_ref().is_none_or(|patch| patch.len() <= MAX_PATCH_BYTES),
            "{path}"
        );
    }
    let small = change(&compared, "d small");
    assert_eq!((small.patch.as_deref(), small.patch_cut), (Some("@@ -0,0 +1 @@\n+x"), false));
}

async fn many_files_are_cut(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let names: Vec<String> = (0..MAX_FILES + 5).map(|number| format!("file {number:03}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    fixture.push("feature/x", &files, "Work");
    let compared = fixture.host.compare("main", "feature/x").await.unwrap();
    assert!(compared.files_cut);
    assert_eq!(compared.files.len(), MAX_FILES);
    assert_eq!(change(&compared, "file 299").patch.as_deref(), Some("@@ -0,0 +1 @@\n+x"));
}

async fn unknown_sides_are_not_found(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let unknown = "0a".repeat(20);
    for (base, head) in [("main", "missing"), ("missing", "main"), ("main", &unknown)] {
        failed(fixture.host.compare(base, head).await, Reason::NotFound);
    }
}
