//! Finds programs and what they need to run: those in directories outside of the system must be made visible.

use crate::policy::SYSTEM;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Directories of tool managers, which contain everything that the programs in their part of `PATH` need. Never those that
/// also hold credentials, such as `.cargo`.
const TOOL_HOMES: [&str; 14] = [
    ".pyenv",
    ".nvm",
    ".rbenv",
    ".asdf",
    ".volta",
    ".bun",
    ".deno",
    ".sdkman",
    ".rustup",
    ".nodenv",
    ".goenv",
    ".fnm",
    ".juliaup",
    "node_modules",
];

/// What a program needs to be visible.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    pub readable: Vec<PathBuf>,
    pub variables: Vec<(String, String)>,
}

/// What the programs in the directories of `PATH` need, besides the system's directories.
pub(crate) fn needed_by_path(path: &OsStr) -> Needed {
    let mut needed = Needed::default();
    for directory in std::env::split_paths(path) {
        if directory.is_absolute() && directory.is_dir() && !is_system(&directory) {
            add_directory(&mut needed, &directory);
        }
    }
    needed
}

fn add_directory(needed: &mut Needed, directory: &Path) {
    let mut add = |path: PathBuf| {
        if !is_system(&path) && !needed.readable.contains(&path) {
            needed.readable.push(path);
        }
    };
    if let Some(home) = tool_home(directory) {
        add(home);
        return;
    }
    add(directory.to_owned());
    // Such as `lib/node_modules` beside `bin`.
    if directory.file_name() == Some(OsStr::new("bin"))
        && let Some(library) =
            directory.parent().map(|parent| parent.join("lib")).filter(|path| path.is_dir())
    {
        add(library);
    }
    // Programs that are links to where an installer keeps their versions.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link
            && let Ok(target) = entry.path().canonicalize()
            && target.is_file()
        {
            add(tool_home(&target).unwrap_or(target));
        }
    }
    // Programs of `.cargo/bin` are links to the manager of toolchains, which are elsewhere.
    let toolchains =
        directory.ends_with(".cargo/bin").then(|| directory.with_file_name("")).and_then(|cargo| {
            let toolchains = cargo.parent()?.join(".rustup");
            toolchains.is_dir().then_some(toolchains)
        });
    if let Some(toolchains) = toolchains {
        needed.variables.push(("RUSTUP_HOME".to_owned(), toolchains.display().to_string()));
        needed.readable.push(toolchains);
    }
}

/// The directory of a tool manager that this path is in: the outermost.
fn tool_home(path: &Path) -> Option<PathBuf> {
    let is_tool_home = |part: &Component<'_>| TOOL_HOMES.iter().any(|name| part.as_os_str() == *name);
    let end = path.components().position(|part| is_tool_home(&part))?;
    Some(path.components().take(end + 1).collect())
}

/// What must be visible for a program at this path, which is canonical.
pub(crate) fn needed_by_program(program: &Path) -> PathBuf {
    tool_home(program).unwrap_or_else(|| program.to_owned())
}

/// The absolute path of a program.
///
/// # Errors
/// If it does not exist or is not executable.
pub(crate) fn find(program: &OsStr, path: &OsStr, cwd: &Path) -> io::Result<PathBuf> {
    let given = Path::new(program);
    let found = if given.components().count() > 1 {
        let absolute = cwd.join(given);
        is_executable(&absolute)?.then_some(absolute)
    } else {
        let mut directories = std::env::split_paths(path).map(|directory| cwd.join(directory).join(given));
        directories.find(|candidate| is_executable(candidate).unwrap_or(false))
    };
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "No such program"))
}

fn is_executable(path: &Path) -> io::Result<bool> {
    let metadata = path.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "The file is not executable"));
    }
    Ok(metadata.is_file())
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|directory| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn programs_outside_of_the_system_are_visible_with_what_they_need() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for directory in [
            ".local/bin",
            ".local/share/agent/versions",
            ".local/lib",
            ".pyenv/shims",
            ".cargo/bin",
            ".rustup",
        ] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        let version = home.join(".local/share/agent/versions/1.2");
        fs::write(&version, "").unwrap();
        fs::set_permissions(&version, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&version, home.join(".local/bin/agent")).unwrap();
        let directories = [".local/bin", ".pyenv/shims", ".cargo/bin"].map(|inner| home.join(inner));
        let path = std::env::join_paths(directories.iter().chain([&PathBuf::from("/usr/bin")])).unwrap();
        let needed = needed_by_path(&path);
        let expected = [
            ".local/bin",
            ".local/lib",
            ".local/share/agent/versions/1.2",
            ".pyenv",
            ".cargo/bin",
            ".rustup",
        ];
        assert_eq!(needed.readable, expected.map(|inner| home.join(inner)));
        assert_eq!(
            needed.variables,
            [("RUSTUP_HOME".to_owned(), home.join(".rustup").display().to_string())]
        );
        let found = find(OsStr::new("agent"), &path, Path::new("/")).unwrap();
        assert_eq!(found, home.join(".local/bin/agent"));
        assert_eq!(needed_by_program(&version), version);
        let modules = Path::new("/w/node_modules/agent/node_modules/x/cli.js");
        assert_eq!(needed_by_program(modules), Path::new("/w/node_modules"));
        fs::set_permissions(&version, fs::Permissions::from_mode(0o600)).unwrap();
        let denied = find(version.as_os_str(), &path, Path::new("/")).unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(find(OsStr::new("no-such-program"), &path, Path::new("/")).is_err());
    }
}
