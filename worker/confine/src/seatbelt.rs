//! The profile of `sandbox-exec`, which restricts programs on macOS.
//!
//! A pure function of the policy, compiled on every system, so that its golden tests run on Linux. It was never run: the
//! profile follows those of Chromium and of agents that use `sandbox-exec`. In a profile the last rule that matches decides.
//!
//! Deliberately absent: name resolution and Keychain. The agent reaches the network through the worker, which resolves names.

use crate::policy::Policy;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Part of macOS.
pub(crate) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Runs a program with a profile once. On failure, the reason.
#[cfg(target_os = "macos")]
pub(crate) fn probe() -> Result<(), String> {
    if !Path::new(PROGRAM).is_file() {
        return Err(format!("{PROGRAM} does not exist"));
    }
    let mut command = crate::launcher::plain(Path::new(PROGRAM));
    let output = command.arg("-p").arg(profile(&Policy::default(), &[])).arg("/usr/bin/true").output();
    let output = output.map_err(|error| format!("{PROGRAM} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{PROGRAM} does not work: {}",
        printed.lines().next().unwrap_or("it failed without a reason")
    ))
}

#[cfg(not(target_os = "macos"))]
pub(crate) fn probe() -> Result<(), String> {
    Err(format!("sandbox-exec is part of macOS; this is {}", std::env::consts::OS))
}

/// Rules of every program: its own processes, what the system's libraries need, and terminals that it opened itself. Those of
/// the user, and the one that the worker was started from (`/dev/tty`), are denied: a program could read them or type into them.
const FIXED: &str = r#"(version 1)
(deny default)
; Not part of the default.
(deny process-info*)
(deny nvram*)
(deny iokit-get-properties)
(deny file-map-executable)

; Child processes inherit this profile.
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))

; What the libraries of the system need.
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))

; Devices, and terminals that the program opened itself.
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
"#;

/// Directories of macOS, with read and execute access, by their real paths. Absent are those with data of users and services.
const SYSTEM: [&str; 10] = [
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/System",
    "/Library",
    // Compilers and git.
    "/Applications/Xcode.app/Contents/Developer",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/select",
];

/// Links at the root that lead to such directories.
const LINKS: [&str; 3] = ["/etc", "/tmp", "/var"];

/// Parts of them with data of the machine's users and services.
const SYSTEM_HIDDEN: [&str; 4] = [
    "/Library/Keychains",
    "/Library/Preferences",
    "/Library/Application Support",
    "/private/etc/master.passwd",
];

/// The profile for a policy, whose paths are real ones. Of the network, only these ports of the loopback can be connected to;
/// any can be listened on, because previews need it.
pub(crate) fn profile(policy: &Policy, ports: &[u16]) -> String {
    let mut text = FIXED.to_owned();
    text.push_str("\n; Files. Later rules override earlier ones.\n");
    let system = SYSTEM.iter().map(Path::new);
    let readable = system.chain(policy.readable.iter().map(PathBuf::as_path));
    let writable = policy.writable.iter().map(PathBuf::as_path);
    let hidden = policy.hidden.iter().map(PathBuf::as_path);
    let hidden = SYSTEM_HIDDEN.iter().map(Path::new).chain(hidden);
    let visible = readable.clone().chain(writable.clone());
    let above: BTreeSet<&Path> = visible.flat_map(|path| path.ancestors().skip(1)).collect();
    let mut entries: Vec<(&Path, &str)> =
        readable.map(|path| (path, "allow file-read* file-map-executable")).collect();
    entries.extend(hidden.map(|path| (path, "deny file-read* file-write* file-map-executable")));
    entries.extend(writable.map(|path| (path, "allow file-read* file-write* file-map-executable")));
    // Parents first, so that what is inside of a directory is decided after it.
    entries.sort_by_key(|(path, _)| path.components().count());
    for (path, access) in entries {
        rule(&mut text, access, "subpath", path);
    }
    text.push_str("\n; The loader reads the root, and programs resolve links in paths. Directories above cannot be listed.\n");
    text.push_str("(allow file-read* (literal \"/\"))\n");
    for path in LINKS.iter().map(Path::new).chain(above) {
        rule(&mut text, "allow file-read-metadata", "literal", path);
    }
    text.push_str("\n; Network: the endpoints and the proxy of the worker, and servers of the program.\n");
    text.push_str("(allow network-bind (local ip \"localhost:*\"))\n");
    text.push_str("(allow network-inbound (local ip \"localhost:*\"))\n");
    for port in ports.iter().collect::<BTreeSet<_>>() {
        text.push_str(&format!("(allow network-outbound (remote ip \"localhost:{port}\"))\n"));
    }
    text
}

fn rule(text: &mut String, rule: &str, kind: &str, path: &Path) {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    text.push_str(&format!("({rule} ({kind} \"{path}\"))\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a file in `src/golden`. `UPDATE_SNAPSHOTS=1` writes it.
    fn check(name: &str, policy: &Policy, ports: &[u16]) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(name);
        let profile = profile(policy, ports);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&file, &profile).unwrap();
        }
        assert_eq!(profile, std::fs::read_to_string(&file).unwrap(), "{}", file.display());
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn profile_of_an_agent_is_as_expected() {
        let own = "/Users/ann/Library/Application Support/sunaba/sandboxes/box";
        let inside = |name: &str| PathBuf::from(own).join(name);
        let policy = Policy {
            writable: ["workspace", "home", "tmp"].map(inside).to_vec(),
            readable: paths(&["/Users/ann/.nvm"]),
            hidden: paths(&["/Users/ann/Library/Application Support/sunaba"]),
            ..Policy::default()
        };
        check("agent.sb", &policy, &[53124, 53122, 53122]);
    }

    #[test]
    fn profile_without_access_is_as_expected() {
        check("nothing.sb", &Policy::default(), &[]);
    }

    #[test]
    fn terminals_of_the_user_are_not_allowed() {
        let profile = profile(&Policy::default(), &[]);
        let rules: Vec<&str> = profile.lines().filter(|line| line.starts_with("(allow ")).collect();
        for rule in rules.iter().filter(|rule| rule.contains("/dev/tty")) {
            assert!(
                rule.contains(
                    r#"(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))"#
                ),
                "{rule}"
            );
        }
        for rule in rules.iter().filter(|rule| rule.contains("file-ioctl")) {
            assert!(
                rule.contains("com.apple.sandbox.pty") || rule.contains(r#"(literal "/dev/ptmx")"#),
                "{rule}"
            );
        }
    }

    #[test]
    fn path_cannot_end_its_rule() {
        let policy = Policy { writable: paths(&["/w/a\"))(allow default)\\"]), ..Policy::default() };
        let profile = profile(&policy, &[]);
        let expected =
            r#"(allow file-read* file-write* file-map-executable (subpath "/w/a\"))(allow default)\\"))"#;
        assert!(profile.lines().any(|line| line == expected), "{profile}");
    }
}
