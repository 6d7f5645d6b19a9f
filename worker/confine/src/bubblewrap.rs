//! The command line of bubblewrap, which gives a program its own view of the system.

use crate::policy::{Policy, SYSTEM};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Size of `/tmp`, which is in memory. `TMPDIR` is on disk.
const TMP_BYTES: u64 = 1 << 30;

/// Namespaces of every program. Without capabilities, the program cannot change what was mounted for it. All of its
/// processes are killed when bubblewrap or the worker exits.
///
/// Deliberately absent: `--new-session`. It would take the program out of the process group that the worker signals. What
/// it prevents, typing into the worker's terminal, the system call filter prevents.
const NAMESPACES: [&str; 8] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

/// Finds bubblewrap and runs it once. On failure, the reason.
#[cfg(target_os = "linux")]
pub(crate) fn probe() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fixed = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(fixed).map(|directory| directory.join("bwrap"));
    let program = candidates.find(|program| program.is_absolute() && program.is_file());
    let program = program.ok_or("bubblewrap is not installed")?;
    let mut arguments = arguments(&Policy::default(), &[], Path::new("/"));
    // Programs of a sandbox share one network namespace, so this is not an argument of each.
    arguments.insert(0, "--unshare-net".into());
    arguments.push("true".into());
    let output = crate::launcher::plain(&program).args(arguments).output();
    let output = output.map_err(|error| format!("bubblewrap cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "bubblewrap does not work: {}",
        printed.lines().next().unwrap_or("it failed without a reason")
    ))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn probe() -> Result<PathBuf, String> {
    Err(format!("bubblewrap needs Linux; this is {}", std::env::consts::OS))
}

/// All arguments up to the program, for one that only needs a network namespace.
pub(crate) fn namespace_arguments(directory: &Path) -> Vec<OsString> {
    let directory = directory.as_os_str();
    let mut arguments: Vec<OsString> =
        ["--unshare-user", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL"]
            .map(OsString::from)
            .into();
    arguments.extend(["--ro-bind", "/", "/", "--bind"].map(OsString::from));
    arguments.extend(
        [directory, directory, OsStr::new("--chdir"), directory, OsStr::new("--")].map(OsString::from),
    );
    arguments
}

/// One entry of the program's view of the file system.
enum Entry<'a> {
    Readable(&'a Path),
    Writable(&'a Path),
    Hidden(&'a Path),
}

impl Entry<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Readable(path) | Self::Writable(path) | Self::Hidden(path) => path,
        }
    }
}

/// All arguments up to the program. `private` are files of the system that are hidden too.
pub(crate) fn arguments(policy: &Policy, private: &[PathBuf], cwd: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = NAMESPACES.map(OsString::from).into();
    let mut add = |words: &[&OsStr]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    let word = OsStr::new;
    add(&[word("--proc"), word("/proc")]);
    // Their files belong to root, who needs no capability to write to them.
    for path in ["/proc/sys", "/proc/sysrq-trigger"] {
        add(&[word("--ro-bind-try"), word(path), word(path)]);
    }
    add(&[word("--dev"), word("/dev")]);
    for path in ["/tmp", "/var/tmp"] {
        let size = TMP_BYTES.to_string();
        add(&[word("--perms"), word("1777"), word("--size"), word(&size), word("--tmpfs"), word(path)]);
    }
    // Parents first, so that a directory does not cover what is mounted within it.
    let system = SYSTEM.iter().map(|path| Entry::Readable(Path::new(path)));
    let resolver = resolver_file();
    let mut entries: Vec<Entry<'_>> = system.collect();
    entries.extend(resolver.as_deref().map(Entry::Readable));
    entries.extend(policy.readable.iter().map(|path| Entry::Readable(path)));
    entries.extend(private.iter().map(|path| Entry::Hidden(path)));
    entries.extend(policy.writable.iter().map(|path| Entry::Writable(path)));
    let hidden = policy.hidden.iter().filter(|hidden| policy.shows(hidden));
    entries.extend(hidden.map(|path| Entry::Hidden(path)));
    entries.sort_by_key(|entry| entry.path().components().count());
    for entry in &entries {
        let path = entry.path().as_os_str();
        match entry {
            Entry::Readable(_) => add(&[word("--ro-bind-try"), path, path]),
            Entry::Writable(_) => add(&[word("--bind"), path, path]),
            Entry::Hidden(hidden) if hidden.is_dir() => {
                add(&[word("--tmpfs"), path]);
            }
            Entry::Hidden(hidden) if hidden.exists() => add(&[word("--ro-bind"), word("/dev/null"), path]),
            Entry::Hidden(_) => {}
        }
    }
    add(&[word("--remount-ro"), word("/"), word("--chdir"), cwd.as_os_str(), word("--")]);
    arguments
}

/// The file that `/etc/resolv.conf` links to, usually in `/run`. DNS needs it.
fn resolver_file() -> Option<PathBuf> {
    let file = Path::new("/etc/resolv.conf").canonicalize().ok()?;
    (!SYSTEM.iter().any(|directory| file.starts_with(directory))).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_mounted_before_what_is_inside_of_them() {
        let policy = Policy {
            writable: vec!["/opt/data/box/work".into()],
            hidden: vec!["/opt".into(), "/nowhere/data".into()],
            ..Policy::default()
        };
        let arguments = arguments(&policy, &[], Path::new("/opt/data/box/work"));
        let text: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let text = text.join(" ");
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing in {text}"));
        assert!(at("--ro-bind-try /opt /opt") < at("--tmpfs /opt"), "{text}");
        assert!(at("--tmpfs /opt") < at("--bind /opt/data/box/work /opt/data/box/work"), "{text}");
        assert!(!text.contains("/nowhere"), "what is absent need not be hidden: {text}");
        assert!(text.ends_with("--remount-ro / --chdir /opt/data/box/work --"), "{text}");
    }
}
