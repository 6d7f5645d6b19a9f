//! Tests that nothing gets out of: a network namespace with nothing in it but the loopback.
//!
//! A foreign program is asked not to call home, and may do so anyway. Here it cannot. In a namespace the loopback is
//! another one too, so the whole test moves there: plane, worker, agent and model.

use std::future::Future;
use std::net::UdpSocket;
use std::process::Command;

/// Runs a test without any network but the loopback: directly where there is no other, and otherwise by starting this
/// one test again inside of a new namespace. To be called by a `#[test]` that does nothing else.
pub fn offline<F: Future<Output = ()>>(test: F) {
    if is_offline() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("a runtime can be made").block_on(test);
    }
    let name = name_of::<F>();
    let this = std::env::current_exe().expect("a test knows its own binary");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
        .arg(this)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .output()
        .expect("unshare can be started; it is part of util-linux");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A name that does not exist would run nothing, and pass.
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{name} failed in a network namespace of its own. If the namespace could not be made, run `cargo xtask \
         tools`, which installs what it takes, as a user who may make one.\n{out}\n{err}"
    );
}

/// Whether there is no way to the internet. A datagram's socket looks for one without sending anything.
fn is_offline() -> bool {
    let reaches = |from: &str, to: &str| UdpSocket::bind(from).and_then(|socket| socket.connect(to)).is_ok();
    !reaches("0.0.0.0:0", "1.1.1.1:443") && !reaches("[::]:0", "[2606:4700:4700::1111]:443")
}

/// The test's name as its binary knows it: the path of the function that the block was written in, without the crate.
pub(crate) fn name_of<F>() -> &'static str {
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_, name)| name)
}
