//! Tests without network access: they run in a network namespace that has only the loopback.
//!
//! Third-party programs may ignore settings that disable telemetry; in a namespace they cannot reach the network. A
//! namespace has its own loopback, so the whole test runs inside: plane, worker, agent and model.

use std::future::Future;
use std::net::UdpSocket;
use std::process::Command;
use tempfile::NamedTempFile;

/// Runs a test without network access: directly if there is none, otherwise by starting this test again in a new
/// namespace. Must be the only statement of a `#[test]`.
pub fn offline<F: Future<Output = ()>>(test: F) {
    if is_offline() {
        return block_on(test);
    }
    run_again(name_of::<F>(), &[], "ip link set lo up");
}

/// Set for a test that runs in a namespace with an address.
const NAMESPACE: &str = "KIT_NAMESPACE";

/// Runs a test in a new namespace whose loopback also has this address. Must be the only statement of a `#[test]`.
pub fn offline_at<F: Future<Output = ()>>(address: &str, test: F) {
    if std::env::var_os(NAMESPACE).is_some() {
        return block_on(test);
    }
    let setup = format!("ip link set lo up && ip address add {address}/32 dev lo && export {NAMESPACE}=1");
    run_again(name_of::<F>(), &[], &setup);
}

/// Set for a test with host names of its own: their file.
const HOSTS: &str = "KIT_HOSTS";

/// As [`offline_at`], for several addresses, and with host names of its own. See [`set_hosts`].
pub fn offline_with_hosts<F: Future<Output = ()>>(addresses: &[&str], test: F) {
    if std::env::var_os(HOSTS).is_some() {
        return block_on(test);
    }
    let file = NamedTempFile::new().expect("a temporary file can be created");
    let path = file.path().display();
    let add: String =
        addresses.iter().map(|address| format!(" && ip address add {address}/32 dev lo")).collect();
    let setup = format!("ip link set lo up{add} && mount --bind {path} /etc/hosts && export {HOSTS}={path}");
    run_again(name_of::<F>(), &["--mount"], &setup);
}

/// Replaces the host names of a test, for all its processes: lines of `/etc/hosts`.
///
/// # Panics
/// Outside of [`offline_with_hosts`].
pub fn set_hosts(lines: &str) {
    let file = std::env::var_os(HOSTS).expect("the test has host names of its own");
    std::fs::write(file, lines).expect("its file can be written");
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be created").block_on(test);
}

/// Runs the test with this name in a new network namespace and in further ones, after these commands.
fn run_again(name: &str, namespaces: &[&str], setup: &str) {
    let this = std::env::current_exe().expect("a test knows its own binary");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net"])
        .args(namespaces)
        .args(["sh", "-c", &format!("{setup} && exec \"$0\" \"$@\"")])
        .arg(this)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .output()
        .expect("unshare can be started; it is part of util-linux");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // With a wrong name no test would run, and the exit code would still be 0.
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{name} failed in its network namespace. If the namespace could not be created, run `cargo xtask tools` to \
         install what it needs, as a user with permission to create namespaces.\n{out}\n{err}"
    );
}

/// Whether there is no route to the internet. Connecting a UDP socket checks the route without sending anything.
fn is_offline() -> bool {
    let reaches = |from: &str, to: &str| UdpSocket::bind(from).and_then(|socket| socket.connect(to)).is_ok();
    !reaches("0.0.0.0:0", "1.1.1.1:443") && !reaches("[::]:0", "[2606:4700:4700::1111]:443")
}

/// The name of the test: the path of the function that defines the block, without the crate.
pub(crate) fn name_of<F>() -> &'static str {
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_, name)| name)
}
