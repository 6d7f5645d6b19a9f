//! What a root worker gives to the user of its agent, and what stays closed.

use super::{lacks_root, user_of};
use confine::{Launcher, Policy, Tier};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The launcher of a root worker, for an agent with a user of its own.
fn launcher_with_own_user(
    home: &Path,
    writable: Vec<PathBuf>,
    readable: Vec<PathBuf>,
) -> anyhow::Result<Launcher> {
    let policy = Policy { writable, readable, ..Policy::default() };
    let environment = [("PATH", "/usr/bin:/bin".to_owned()), ("HOME", home.display().to_string())];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    let program = vec![env!("CARGO_BIN_EXE_sunaba").to_owned(), "worker".to_owned()];
    Launcher::new(Tier::Landlock, policy, program, environment)
}

/// Set for a copy of the test below with mounts of its own.
const OWN_MOUNTS: &str = "ESCAPE_TEST_OWN_MOUNTS";

#[test]
fn root_worker_starts_no_agent_in_a_directory_that_others_need() {
    if lacks_root() {
        return;
    }
    let reserved = Path::new("/mnt");
    if std::env::var_os(OWN_MOUNTS).is_none() {
        // If this fails, nothing of the machine is given away.
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", "mount -t tmpfs none /mnt && exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "escape::own_user::root_worker_starts_no_agent_in_a_directory_that_others_need",
            ])
            .env(OWN_MOUNTS, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
        return;
    }
    let folder = TempDir::with_prefix("reserved-").unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let writable = vec![home.clone(), reserved.to_owned()];
    let why = format!("{:#}", launcher_with_own_user(&home, writable, Vec::new()).unwrap_err());
    assert!(why.contains("cannot give /mnt to") && why.contains("CWD"), "{why}");
    for kept in [reserved, &home] {
        assert_eq!(user_of(kept), 0, "{} is not given away", kept.display());
    }
}

#[test]
fn closed_directories_are_opened_for_what_the_operator_has_chosen_only() {
    if lacks_root() {
        return;
    }
    let folder = TempDir::with_prefix("closed-").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| folder.path().join(name);
    for directory in ["home", "chosen/closed/inner", "other/closed/inner"] {
        fs::create_dir_all(path(directory)).unwrap();
    }
    for closed in ["chosen/closed", "other/closed"] {
        fs::set_permissions(path(closed), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let launcher = launcher_with_own_user(&path("home"), vec![path("home")], vec![path("chosen")]).unwrap();
    assert!(launcher.has_own_user(), "{:?}", launcher.gaps());
    let through_parent = path("chosen/../other/closed/inner");
    let paths = [path("chosen/closed/inner"), path("other/closed/inner"), through_parent];
    let launcher = launcher.with_readable(paths);
    let lists = |directory: &str| {
        let arguments = [path(directory).into_os_string()];
        let mut command = launcher.command("ls".as_ref(), arguments, &path("home")).unwrap();
        command.output().unwrap().status.success()
    };
    assert!(lists("chosen/closed/inner"));
    assert!(!lists("other/closed/inner"), "the author of a task may have chosen it");
    let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("other/closed"), 0o700, "it has no access control entry");
}
