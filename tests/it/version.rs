//! Every program reports the version of the workspace.

use crate::architecture::workspace_versions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn workspace_has_one_version() {
    for (package, version) in workspace_versions() {
        assert_eq!(version, VERSION, "{package} must have `version.workspace = true`");
    }
    assert_ne!(VERSION, "0.0.0");
}

#[test]
fn command_prints_the_workspace_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("sunaba {VERSION}\n"));
}

#[test]
fn requests_name_the_workspace_version_as_user_agent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(["tasks", "--token", "a-token-of-sixteen", "--url"])
        .arg(format!("http://{}", listener.local_addr().unwrap()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let head: Vec<String> = BufReader::new(&connection)
        .lines()
        .map(|line| line.unwrap().to_lowercase())
        .take_while(|line| !line.is_empty())
        .collect();
    connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert!(head.contains(&format!("user-agent: sunaba/{VERSION}")), "{head:?}");
    command.wait().unwrap();
}
