//! No program runs that a repository names.

use crate::support::{Fixture, Git, Kind, request};
use code_hosts::{CheckState, Creation, Merge, MergeMethod, Status};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Every hook that git knows and that a command here could start.
const HOOKS: [&str; 14] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "post-update",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "reference-transaction",
];

/// Programs that leave a mark when they run.
fn plant(repository: &Git, git_directory: &str, mark: &str) {
    let script = repository.0.join(git_directory).join("planted.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> '{mark}'\ncat\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap().to_owned();
    for hook in HOOKS {
        fs::create_dir_all(repository.0.join(git_directory).join("hooks")).unwrap();
        let hook = repository.0.join(git_directory).join("hooks").join(hook);
        fs::copy(&script, hook).unwrap();
    }
    for name in [
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "diff.planted.command",
        "diff.planted.textconv",
        "filter.planted.clean",
        "filter.planted.smudge",
        "filter.planted.process",
        "filter.with=sign.smudge",
        "filter.with=sign.clean",
        "merge.planted.driver",
        "merge.with=sign.driver",
        "gpg.program",
        "gc.recentObjectsHook",
        "pager.log",
        "pager.diff",
        "alias.mark",
    ] {
        repository.run(&["config", name, &script]);
    }
    for (name, value) in [
        ("filter.planted.required", "true"),
        ("commit.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("merge.verifySignatures", "true"),
        ("gc.auto", "1"),
        ("maintenance.auto", "true"),
    ] {
        repository.run(&["config", name, value]);
    }
    let attributes = repository.0.join(git_directory).join("info/attributes");
    fs::create_dir_all(attributes.parent().unwrap()).unwrap();
    let text = [
        "lines merge=planted diff=planted",
        "other merge=with=sign",
        "README.md diff=planted",
        "kept filter=planted",
    ];
    let text = text.join("\n");
    fs::write(attributes, text).unwrap();
}

async fn nothing_runs(kind: Kind, git_directory: &str) {
    let fixture = Fixture::new(kind).await;
    fixture.push_main(&[("other", "a\nb\nc\n"), ("kept", "x\n")], "Prepare");
    let host = &fixture.host;
    fixture.push("feature/x", &[("README.md", "Changed\n")], "Work");
    let conflicting = fixture.push("feature/y", &[("lines", "mine\n"), ("other", "A\nb\nc\n")], "More work");
    fixture.push_main(&[("lines", "theirs\n"), ("other", "a\nb\nC\n")], "Meanwhile");
    let mark = fixture.folder().join("mark");
    plant(&fixture.repository, git_directory, mark.to_str().unwrap());
    if kind == Kind::LocalTree {
        // git has to read it again to find out that it has not changed.
        fixture.repository.write("kept", "x\n");
    }

    assert_eq!(host.check(None).await.unwrap().branch, "main");
    assert_eq!(host.branches().await.unwrap().len(), 3);
    let main = fixture.host.branch("main").await.unwrap().unwrap();
    assert_eq!(host.create_branch("feature/z", &main).await.unwrap(), Creation::Created);
    host.delete_branch("feature/z").await.unwrap();
    assert_eq!(host.compare("main", "feature/y").await.unwrap().files.len(), 2);
    let (summary, name) = (String::new(), "sunaba".to_owned());
    host.report_status(&main, &Status { name, state: CheckState::Success, summary, url: None })
        .await
        .unwrap();
    let other = host.propose(&request("feature/y")).await.unwrap();
    assert_eq!(other.mergeable, Some(false));
    let merge = Merge { method: MergeMethod::Rebase, head: conflicting, title: None };
    assert!(host.merge(other.number, &merge).await.is_err());
    let head = host.branch("feature/x").await.unwrap().unwrap();
    for method in [MergeMethod::Squash, MergeMethod::Rebase, MergeMethod::Merge] {
        let branch = format!("work/{method:?}");
        host.create_branch(&branch, &head).await.unwrap();
        let proposed = host.propose(&request(&branch)).await.unwrap();
        let merge = Merge { method, head: head.clone(), title: None };
        host.merge(proposed.number, &merge).await.unwrap();
    }
    assert_eq!(fs::read_to_string(&mark).unwrap_or_default(), "", "a planted program ran");
}

#[tokio::test]
async fn nothing_runs_in_a_bare_repository() {
    nothing_runs(Kind::LocalBare, ".").await;
}

#[tokio::test]
async fn nothing_runs_in_a_working_tree() {
    nothing_runs(Kind::LocalTree, ".git").await;
}

/// Otherwise the tests above could not fail.
#[tokio::test]
async fn planted_programs_run_with_plain_git() {
    let fixture = Fixture::new(Kind::LocalTree).await;
    fixture.push_main(&[("kept", "x\n")], "Prepare");
    fixture.push("feature/y", &[("lines", "mine\n")], "Work");
    fixture.push_main(&[("lines", "theirs\n")], "Meanwhile");
    let mark = fixture.folder().join("mark");
    plant(&fixture.repository, ".git", mark.to_str().unwrap());
    fixture.repository.write("kept", "changed\n");
    for command in [
        &["update-ref", "refs/heads/other", "main"][..],
        &["status"],
        &["-c", "core.fsmonitor=false", "add", "kept"],
        &["diff", "main~1", "main"],
        &["diff", "--no-ext-diff", "main~1", "main"],
        &["merge-tree", "--write-tree", "main", "feature/y"],
    ] {
        let _ = fs::remove_file(&mark);
        // Some fail because the program is no filter and no driver.
        let _ = fixture.repository.find(command);
        assert!(mark.exists(), "git {command:?} starts no program");
    }
}
