//! What an agent cannot do: a program inside tries to get out, for each tier, as this user and as a plain one.
//!
//! Every attempt must be held by every tier, unless it belongs to a gap that the launcher reports.

mod outside;
mod own_user;

use confine::{Gap, Launcher, Policy, Setting, Tier, available};
use outside::{Outside, Results};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const CANARY: &str = "untouched";

/// Number of attempts in the folder `attacks`.
const ATTEMPTS: usize = 72;

/// Set for a copy of this test that runs as a plain user: the program to confine with.
const PROGRAM: &str = "ESCAPE_TEST_PROGRAM";

#[test]
fn every_tier_blocks_what_it_covers() {
    let program =
        std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_sunaba").into(), PathBuf::from);
    for tier in [Tier::Namespaces, Tier::Landlock] {
        Setting::Exactly(tier).resolve("ISOLATION").expect("tests need every tier: run `cargo xtask tools`");
        check(tier, &program);
    }
}

/// The kernel treats root specially in many places, with and without capabilities.
#[test]
fn every_tier_blocks_what_it_covers_for_a_plain_user() {
    if lacks_root() {
        // The test above already runs as a plain user.
        return;
    }
    // That user cannot enter the directories of this one.
    let folder = TempDir::with_prefix("escape-").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [program, test] = ["sunaba", "it"].map(|name| folder.path().join(name));
    for (from, to) in
        [(PathBuf::from(env!("CARGO_BIN_EXE_sunaba")), &program), (std::env::current_exe().unwrap(), &test)]
    {
        fs::copy(from, to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&test)
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .args(["escape::every_tier_blocks_what_it_covers", "escape::without_isolation_nothing_is_held"])
        .env(PROGRAM, &program)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("As a plain user:\n{printed}");
    assert!(output.status.success() && printed.contains("2 passed"), "{printed}");
}

/// Attempts that succeed where nothing is held. The others would change the machine, or depend on its kernel.
const WITHOUT_ISOLATION: [&str; 28] = [
    "read canary files",
    "change canary files",
    "change permissions of canary files",
    "change times of canary files",
    "list directories of canary files",
    "create files beside canary files",
    "reach canary files through symbolic links",
    "reach canary files through hard links",
    "reach the spool through a descriptor of its directory",
    "change files of the worker's user that are visible",
    "environ of another process",
    "auxv of another process",
    "maps of another process",
    "io of another process",
    "root of another process",
    "cwd of another process",
    "exe of another process",
    "names of files that another process has open",
    "files that another process has open",
    "number of files that another process has open",
    "find the secret in /proc",
    "signal other processes",
    "call setns",
    "connect to a Unix socket by path",
    "connect to an abstract Unix socket",
    "connect to a port of the machine",
    "take the place of the plane",
    "have the user of the worker",
];

/// So each of these attempts works, and a tier that holds it does so itself.
#[test]
fn without_isolation_nothing_is_held() {
    let outside = Outside::new();
    let launcher = outside.launcher(Tier::None, Path::new(env!("CARGO_BIN_EXE_sunaba")));
    assert_eq!(launcher.gaps(), [Gap::Everything]);
    let results = outside.attack(&launcher, Some(&WITHOUT_ISOLATION));
    print(Tier::None, &results, &WITHOUT_ISOLATION.into());
    assert_eq!(results.len(), WITHOUT_ISOLATION.len());
    let held: Vec<_> = results.iter().filter(|(_, (held, _))| *held).collect();
    assert!(held.is_empty(), "{held:?}");
}

/// Otherwise, all tests with default isolation would use a weaker tier.
#[test]
fn default_isolation_of_this_machine_is_namespaces() {
    let tier = Setting::default().resolve("ISOLATION").unwrap();
    let why = &available().bubblewrap;
    assert_eq!(tier, Tier::Namespaces, "bubblewrap does not work, run `cargo xtask tools`: {why:?}");
}

fn is_root() -> bool {
    user_of(Path::new("/proc/self")) == 0
}

/// Whether this is a plain user, for whom a test does nothing. Says so, also if the output of tests is captured.
fn lacks_root() -> bool {
    if !is_root() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(std::io::stderr(), "{test}: skipped: needs root");
    }
    !is_root()
}

fn user_of(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    let follow = path.starts_with("/proc");
    let metadata = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
    metadata.unwrap().uid()
}

/// Set for a copy of the test below in a user namespace with one user.
const ONE_USER: &str = "ESCAPE_TEST_ONE_USER";

#[test]
fn root_worker_that_cannot_change_the_user_of_its_agent_says_so() {
    if std::env::var_os(ONE_USER).is_none() {
        let output = Command::new("unshare")
            .arg("--map-root-user")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "escape::root_worker_that_cannot_change_the_user_of_its_agent_says_so"])
            .env(ONE_USER, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
        return;
    }
    let folder = TempDir::new().unwrap();
    let policy = Policy { writable: vec![folder.path().to_owned()], ..Policy::default() };
    let environment = [("PATH", "/usr/bin:/bin"), ("HOME", folder.path().to_str().unwrap())];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let program = vec![env!("CARGO_BIN_EXE_sunaba").to_owned(), "worker".to_owned()];
    let launcher = Launcher::new(Tier::Landlock, policy, program, environment).unwrap();
    let why = launcher.gaps().into_iter().find_map(|gap| match gap {
        Gap::SharedUser(why) => Some(why),
        _ => None,
    });
    assert!(why.as_ref().is_some_and(|why| why.contains("has no further users")), "{why:?}");
    let mut command = launcher.command("id".as_ref(), ["-u".into()], folder.path()).unwrap();
    assert_eq!(command.output().unwrap().stdout, b"0\n", "the agent is confined as before");
}

/// Files of other sandboxes and of the worker then belong to other users, whatever the restrictions are.
#[test]
fn each_agent_of_a_root_worker_has_a_user_of_its_own() {
    if lacks_root() {
        // Another user cannot become a third.
        return;
    }
    let program = vec![env!("CARGO_BIN_EXE_sunaba").to_owned(), "worker".to_owned()];
    let users = ["one", "other"].map(|_| {
        let folder = TempDir::with_prefix("users-").unwrap();
        let path = |name: &str| folder.path().join(name);
        for directory in ["work/inner", "home", "outside"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        for file in ["work/inner/file", "outside/linked", "outside/canary"] {
            fs::write(path(file), CANARY).unwrap();
        }
        fs::hard_link(path("outside/linked"), path("work/linked")).unwrap();
        std::os::unix::fs::symlink(path("outside/canary"), path("work/link")).unwrap();
        std::os::unix::fs::symlink(path("outside"), path("work/links")).unwrap();
        let policy = Policy { writable: vec![path("work"), path("home")], ..Policy::default() };
        let environment: BTreeMap<_, _> =
            [("PATH", "/usr/bin:/bin".to_owned()), ("HOME", path("home").display().to_string())]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let run = |script: &str| {
            let launcher =
                Launcher::new(Tier::Landlock, policy.clone(), program.clone(), environment.clone()).unwrap();
            assert!(launcher.has_own_user(), "{:?}", launcher.gaps());
            let arguments = ["-c", script].map(Into::into);
            let mut command = launcher.command("/bin/sh".as_ref(), arguments, &path("work")).unwrap();
            let output = command.stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let printed =
            run("id -u; id -G; umask 077; echo mine >secret; echo changed >inner/file; echo ok >/dev/stderr");
        let mut lines = printed.lines();
        let user: u32 = lines.next().unwrap().parse().unwrap();
        let groups: Vec<_> = lines.next().unwrap().split(' ').map(str::to_owned).collect();
        assert!(!groups.contains(&"0".to_owned()) && groups.contains(&user.to_string()), "{groups:?}");
        assert_ne!(user, 0);
        for own in ["work", "work/inner/file", "work/secret", "work/link", "work/links", "home"] {
            assert_eq!(user_of(&path(own)), user, "{own} is the agent's");
        }
        for other in ["outside", "outside/canary", "outside/linked", "work/linked"] {
            assert_eq!(user_of(&path(other)), 0, "{other} is not given away through a link");
        }
        assert_eq!(fs::read_to_string(path("work/secret")).unwrap(), "mine\n", "the worker reads all");
        assert_eq!(run("id -u; cat secret"), format!("{user}\nmine\n"), "the user stays the same");
        user
    });
    assert_ne!(users[0], users[1]);
}

/// Limits are per process and per file, in every tier.
const BEYOND_LIMITS: [&str; 3] = [
    "use much memory as shared memory",
    "use much memory in several processes",
    "fill the disk with several files",
];

/// Attempts that succeed because of a gap.
fn attempts_of(gap: &Gap) -> &'static [&'static str] {
    match gap {
        Gap::Network => &[
            "connect to a port of the machine",
            "connect to a port of the machine over IPv6",
            "send a datagram to the machine",
            "send to other addresses",
            "take the place of the plane",
        ],
        Gap::UnixSocketPaths => &["connect to a Unix socket by path"],
        Gap::AbstractUnixSockets => &["connect to an abstract Unix socket"],
        Gap::Signals => &["signal other processes"],
        Gap::FileAttributes => &["change permissions of canary files", "change times of canary files"],
        Gap::OpenFileCounts => &["number of files that another process has open"],
        Gap::Processes => &["start many processes", "start a fork bomb"],
        Gap::Names | Gap::SharedProcessLimit | Gap::Landlock(_) | Gap::SharedUser(_) => &[],
        Gap::Everything | Gap::Untested | Gap::SystemFiles | Gap::Links | Gap::Limits => {
            unreachable!("not of a tier with isolation on Linux")
        }
    }
}

/// Attempts that this launcher does not claim to block.
fn not_covered(launcher: &Launcher) -> BTreeSet<&'static str> {
    let of_user = (!launcher.has_own_user()).then_some("have the user of the worker");
    let gaps = launcher.gaps();
    gaps.iter().flat_map(attempts_of).copied().chain(BEYOND_LIMITS).chain(of_user).collect()
}

fn check(tier: Tier, program: &Path) {
    let outside = Outside::new();
    let launcher = outside.launcher(tier, program);
    let results = outside.attack(&launcher, None);
    let not_covered = not_covered(&launcher);
    for name in &not_covered {
        assert!(results.contains_key(*name), "no attempt is named {name}");
    }
    print(tier, &results, &not_covered);
    assert_eq!(results.len(), ATTEMPTS, "{tier}: the program makes every attempt: {results:?}");
    let escaped: Vec<_> =
        results.iter().filter(|(name, (held, _))| !held && !not_covered.contains(name.as_str())).collect();
    assert!(escaped.is_empty(), "{tier} does not block: {escaped:?}");
    outside.check_untouched(tier);
}

#[expect(clippy::print_stdout, reason = "the counts are a result of the test")]
fn print(tier: Tier, results: &Results, not_covered: &BTreeSet<&str>) {
    let held = results.values().filter(|(held, _)| *held).count();
    let user = if is_root() { "root" } else { "a plain user" };
    println!("{tier}, worker of {user}: tried {}, held {held}", results.len());
    for (name, (_, why)) in results.iter().filter(|(_, (held, _))| !held) {
        let covered = if not_covered.contains(name.as_str()) { ", and not covered" } else { "" };
        println!("  not held{covered}: {name} ({why})");
    }
}
