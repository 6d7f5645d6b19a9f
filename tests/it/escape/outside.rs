//! What is outside of a sandbox, and the program that attacks it from inside.

use super::{CANARY, user_of};
use confine::{Launcher, Limits, Policy, Tier};
use kit::namespace::Namespace;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Parts of one program.
const ATTACKS: [&str; 8] = [
    include_str!("attacks/common.py"),
    include_str!("attacks/files.py"),
    include_str!("attacks/processes.py"),
    include_str!("attacks/kernel.py"),
    include_str!("attacks/network.py"),
    include_str!("attacks/identity.py"),
    include_str!("attacks/limits.py"),
    include_str!("attacks/run.py"),
];

const SECRET: &str = "planted-secret-of-the-worker";

const FILE_BYTES: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 256 << 20;
const PROCESSES: u64 = 100;

/// Whether each attempt was held, and details.
pub type Results = BTreeMap<String, (bool, String)>;

/// What is outside of the sandbox.
pub struct Outside {
    folder: TempDir,
    /// Not in `/tmp`, of which programs in namespaces have their own. `None` if this user cannot write there.
    _elsewhere: Option<TempDir>,
    canaries: Vec<PathBuf>,
    /// A process of the same user with a secret in its environment.
    other: Child,
    path_socket: UnixListener,
    path_of_socket: PathBuf,
    abstract_socket: UnixListener,
    abstract_name: String,
    tcp: [TcpListener; 2],
    udp: UdpSocket,
    /// Free, as that of a plane that restarts.
    plane_port: u16,
}

impl Outside {
    pub fn new() -> Self {
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
        let elsewhere = TempDir::with_prefix_in("outside-", env!("CARGO_TARGET_TMPDIR")).ok();
        let place = elsewhere.as_ref().unwrap_or(&folder).path();
        let mut canaries = canaries.map(path).to_vec();
        canaries.push(place.join("elsewhere/canary"));
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
        // The path of a socket has at most 107 bytes.
        let paths = [place.join("socket"), path("socket")];
        let mut bound = paths.into_iter().filter_map(|path| Some((UnixListener::bind(&path).ok()?, path)));
        let (path_socket, path_of_socket) = bound.next().expect("the second path is short");
        Self {
            path_socket,
            path_of_socket,
            abstract_socket: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            tcp: ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap()),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            plane_port: TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
            canaries,
            other,
            folder,
            _elsewhere: elsewhere,
        }
    }

    /// The launcher of a program in a sandbox whose directories are among these.
    pub fn launcher(&self, tier: Tier, program: &Path) -> Launcher {
        let sandbox = self.sandbox();
        let [workspace, home, temporary] = ["workspace", "home", "tmp"].map(|name| sandbox.join(name));
        let limits =
            Limits { processes: PROCESSES, file_bytes: FILE_BYTES, memory_bytes: Some(MEMORY_BYTES) };
        let policy = Policy {
            writable: vec![workspace, home.clone(), temporary],
            readable: vec![self.folder.path().join("tools")],
            hidden: vec![self.folder.path().join("plane")],
            limits,
        };
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", home.to_str().unwrap())];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let program = vec![program.display().to_string(), "worker".to_owned()];
        Launcher::new(tier, policy, program, environment).unwrap()
    }

    fn sandbox(&self) -> PathBuf {
        self.folder.path().join("plane/sandboxes/box")
    }

    /// Makes all attempts inside, or only these.
    pub fn attack(&self, launcher: &Launcher, only: Option<&[&str]>) -> Results {
        let tier = launcher.tier();
        let sandbox = self.sandbox();
        let sockets = sandbox.join("state/network");
        fs::create_dir_all(&sockets).unwrap();
        let (launcher, _namespace) = Namespace::open(launcher, &sockets);
        // The agent chooses variables of its terminals. The programs around them must not use these.
        let linker = self.folder.path().join("linker");
        let chosen = [("LD_DEBUG", "libs"), ("LD_DEBUG_OUTPUT", linker.to_str().unwrap())];
        let chosen = chosen.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let launcher = if tier == Tier::None { launcher } else { launcher.with_variables(chosen) };
        let arguments = ["-c".to_owned(), ATTACKS.concat(), self.target(only).to_string()].map(Into::into);
        let workspace = sandbox.join("workspace");
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

    /// What the program knows.
    fn target(&self, only: Option<&[&str]>) -> Value {
        // Reversed, so that the arguments of the attacker are not what it finds.
        let secret: String = SECRET.chars().rev().collect();
        let mut target = json!({
            "canaries": self.canaries,
            "processes": [self.other.id(), std::process::id()],
            "secret": secret,
            "path_socket": self.path_of_socket,
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
        if let Some(only) = only {
            target["only"] = json!(only);
        }
        target
    }

    pub fn check_untouched(mut self, tier: Tier) {
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
