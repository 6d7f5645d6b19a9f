//! What an agent cannot do: a program inside tries to get out, for each tier, as this user and as a plain one.
//!
//! Every attempt must be held by every tier, unless the tier says that it does not cover it.

mod own_user;

use confine::{Launcher, Limits, Policy, Setting, Tier};
use kit::namespace::Namespace;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const ATTACKS: &str = include_str!("attacks.py");
const SECRET: &str = "planted-secret-of-the-worker";
const CANARY: &str = "untouched";

const FILE_BYTES: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 256 << 20;
const PROCESSES: u64 = 100;

/// Set for a copy of this test that runs as a plain user: the program to confine with.
const PROGRAM: &str = "ESCAPE_TEST_PROGRAM";

#[test]
fn every_tier_holds_what_it_promises() {
    let program =
        std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_sunaba").into(), PathBuf::from);
    for tier in [Tier::Namespaces, Tier::Landlock] {
        Setting::Exactly(tier).resolve("ISOLATION").expect("tests need every tier: run `cargo xtask tools`");
        check(tier, &program);
    }
}

/// The kernel treats root specially in many places, with and without capabilities.
#[test]
fn every_tier_holds_what_it_promises_for_a_plain_user() {
    if !is_root() {
        // The test above already runs as one.
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
        .args(["--exact", "escape::every_tier_holds_what_it_promises", "--nocapture", "--test-threads=1"])
        .env(PROGRAM, &program)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("As a plain user:\n{printed}");
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

fn is_root() -> bool {
    user_of(Path::new("/proc/self")) == 0
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
    let not_covered = launcher.not_covered().join(" ");
    assert!(not_covered.contains("has no further users"), "{not_covered}");
    let mut command = launcher.command("id".as_ref(), ["-u".into()], folder.path()).unwrap();
    assert_eq!(command.output().unwrap().stdout, b"0\n", "the agent is confined as before");
}

/// Files of other sandboxes and of the worker then belong to other users, whatever the restrictions are.
#[test]
fn each_agent_of_a_root_worker_has_a_user_of_its_own() {
    if !is_root() {
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
            assert!(launcher.has_own_user(), "{:?}", launcher.not_covered());
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

/// Attempts that a tier does not claim to hold.
fn not_promised(tier: Tier) -> BTreeSet<&'static str> {
    // Limits are per process and per file.
    let mut names = BTreeSet::from([
        "use much memory as shared memory",
        "use much memory in several processes",
        "fill the disk with several files",
    ]);
    if tier == Tier::Landlock {
        names.extend([
            "connect to a Unix socket by path",
            "connect to a port of the machine",
            "connect to a port of the machine over IPv6",
            "send a datagram to the machine",
            "send to other addresses",
            "take the place of the plane",
        ]);
    }
    // There, the agent has a user of its own.
    if !(is_root() && tier == Tier::Landlock) {
        names.insert("have the user of the worker");
    }
    if is_root() && tier == Tier::Namespaces {
        names.extend(["start many processes", "start a fork bomb"]);
    }
    names
}

#[expect(clippy::print_stdout, reason = "the counts are a result of the test")]
fn check(tier: Tier, program: &Path) {
    let outside = Outside::new();
    let results = outside.attack(tier, program);
    for name in not_promised(tier) {
        assert!(results.contains_key(name), "no attempt is named {name}");
    }
    let promised = |name: &str| !not_promised(tier).contains(name);
    let held = results.iter().filter(|(_, (held, _))| *held).count();
    let user = if is_root() { "root" } else { "a plain user" };
    println!("{tier}, worker of {user}: tried {}, held {held}", results.len());
    for (name, (_, why)) in results.iter().filter(|(_, (held, _))| !held) {
        println!("  not held{}: {name} ({why})", if promised(name) { "" } else { ", and not promised" });
    }
    assert!(results.len() > 45, "the program ran to its end: {results:?}");
    let escaped: Vec<_> = results.iter().filter(|(name, (held, _))| !held && promised(name)).collect();
    assert!(escaped.is_empty(), "{tier} does not hold: {escaped:?}");
    outside.check_untouched(tier);
}

/// What is outside of the sandbox.
struct Outside {
    folder: TempDir,
    canaries: Vec<PathBuf>,
    /// A process of the same user with a secret in its environment.
    other: Child,
    path_socket: UnixListener,
    abstract_socket: UnixListener,
    abstract_name: String,
    tcp: [TcpListener; 2],
    udp: UdpSocket,
    /// Free, as that of a plane that restarts.
    plane_port: u16,
}

impl Outside {
    fn new() -> Self {
        let folder = TempDir::with_prefix("outside-").unwrap();
        let path = |name: &str| folder.path().join(name);
        let canaries = [
            "home-of-the-user/.ssh/id_ed25519",
            "plane/operator-token",
            "plane/sandboxes/other/workspace/canary",
            "plane/sandboxes/box/state/outbox/events",
            "plane/sandboxes/box/state/state.json",
            "plane/sandboxes/box/worker.json",
        ];
        let canaries = canaries.map(path).to_vec();
        for canary in &canaries {
            fs::create_dir_all(canary.parent().unwrap()).unwrap();
            fs::write(canary, CANARY).unwrap();
        }
        for own in ["workspace", "home", "tmp"] {
            fs::create_dir_all(path("plane/sandboxes/box").join(own)).unwrap();
        }
        // What the worker's user owns and the agent sees.
        fs::create_dir_all(path("tools")).unwrap();
        for program in ["tools/setuid", "plane/sandboxes/box/workspace/setuid-of-the-worker"].map(path) {
            fs::copy("/usr/bin/cat", &program).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        }
        fs::write(path("tools/visible"), CANARY).unwrap();
        let abstract_name = format!("escape-{}", folder.path().file_name().unwrap().to_string_lossy());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let other =
            Command::new("sleep").arg("1000").env("SECRET", SECRET).stdin(Stdio::null()).spawn().unwrap();
        Self {
            path_socket: UnixListener::bind(path("socket")).unwrap(),
            abstract_socket: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            tcp: ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap()),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            plane_port: TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
            canaries,
            other,
            folder,
        }
    }

    /// Runs all attacks inside. Returns whether each was held, and details.
    fn attack(&self, tier: Tier, program: &Path) -> BTreeMap<String, (bool, String)> {
        let sandbox = self.folder.path().join("plane/sandboxes/box");
        let [workspace, home, temporary] = ["workspace", "home", "tmp"].map(|name| sandbox.join(name));
        let limits =
            Limits { processes: PROCESSES, file_bytes: FILE_BYTES, memory_bytes: Some(MEMORY_BYTES) };
        let policy = Policy {
            writable: vec![workspace.clone(), home.clone(), temporary],
            readable: vec![self.folder.path().join("tools")],
            hidden: vec![self.folder.path().join("plane")],
            limits,
        };
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", home.to_str().unwrap())];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let program = vec![program.display().to_string(), "worker".to_owned()];
        let launcher = Launcher::new(tier, policy, program, environment).unwrap();
        let sockets = sandbox.join("state/network");
        fs::create_dir_all(&sockets).unwrap();
        let (launcher, _namespace) = Namespace::open(&launcher, &sockets);
        // The agent chooses variables of its terminals. The programs around them must not use these.
        let linker = self.folder.path().join("linker");
        let chosen = [("LD_DEBUG", "libs"), ("LD_DEBUG_OUTPUT", linker.to_str().unwrap())];
        let launcher =
            launcher.with_variables(chosen.map(|(name, value)| (name.to_owned(), value.to_owned())));
        // Reversed, so that the arguments of the attacker are not what it finds.
        let secret: String = SECRET.chars().rev().collect();
        let target = json!({
            "canaries": self.canaries,
            "processes": [self.other.id(), std::process::id()],
            "secret": secret,
            "path_socket": self.folder.path().join("socket"),
            "abstract_socket": self.abstract_name,
            "ports": self.tcp.each_ref().map(|listener| listener.local_addr().unwrap().port()),
            "udp_port": self.udp.local_addr().unwrap().port(),
            "plane_port": self.plane_port,
            "network": fs::read_link("/proc/self/ns/net").unwrap(),
            "setuid_file": self.folder.path().join("tools/setuid"),
            "visible_files": [self.folder.path().join("tools/visible"), self.folder.path().join("tools/setuid")],
            "worker_user": user_of(Path::new("/proc/self")),
            "file_bytes": FILE_BYTES,
            "memory_bytes": MEMORY_BYTES,
            "processes_limit": PROCESSES,
        });
        let arguments = ["-c".to_owned(), ATTACKS.to_owned(), target.to_string()].map(Into::into);
        let mut command = launcher.command("/usr/bin/python3".as_ref(), arguments, &workspace).unwrap();
        let attacker =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = attacker.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tier}: {}\n{printed}\n{errors}", output.status);
        assert!(!printed.contains("BROKEN"), "{tier}: {printed}");
        let lines = printed.lines().map(|line| {
            let mut parts = line.splitn(3, '\t');
            let mut next = || parts.next().unwrap_or_default().to_owned();
            (next(), (next() == "held", next()))
        });
        // The dynamic linker prints there if it cannot write to its file.
        lines.filter(|(name, _)| !name.starts_with(' ')).collect()
    }

    fn check_untouched(mut self, tier: Tier) {
        for canary in &self.canaries {
            assert_eq!(fs::read_to_string(canary).unwrap(), CANARY, "{}", canary.display());
            let beside = canary.parent().unwrap().read_dir().unwrap().flatten();
            let names: Vec<_> = beside.map(|entry| entry.file_name()).collect();
            assert!(!names.iter().any(|name| name == "planted"), "{names:?}");
        }
        assert_eq!(fs::read_to_string(self.folder.path().join("tools/visible")).unwrap(), CANARY);
        assert!(self.other.try_wait().unwrap().is_none(), "the other process still runs");
        self.abstract_socket.set_nonblocking(true).unwrap();
        assert!(self.abstract_socket.accept().is_err(), "the abstract socket got no connection");
        if tier == Tier::Namespaces {
            self.path_socket.set_nonblocking(true).unwrap();
            assert!(self.path_socket.accept().is_err(), "the socket got no connection");
            for listener in &self.tcp {
                listener.set_nonblocking(true).unwrap();
                assert!(listener.accept().is_err(), "the port got no connection");
            }
        }
        let names = self.folder.path().read_dir().unwrap().flatten().map(|entry| entry.file_name());
        let names: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("linker")).collect();
        assert!(names.is_empty(), "a program outside used variables of the agent: {names:?}");
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}
