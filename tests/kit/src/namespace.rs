//! Network namespaces of confined programs, without the servers of a worker.

use confine::{Launcher, NetworkNamespace};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// The process that keeps a network namespace open. Killed on drop.
#[derive(Debug)]
pub struct Namespace(Child);

impl Namespace {
    /// Gives programs the network of the launcher's tier. There is no namespace if the tier shares the machine's.
    pub fn open(launcher: &Launcher, sockets: &Path) -> (Launcher, Option<Self>) {
        let Some(mut command) = launcher.namespace_command(["bridge".to_owned()], sockets) else {
            return (launcher.clone(), None);
        };
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut bridge = Self(command.spawn().expect("bubblewrap can be started"));
        let mut line = String::new();
        let output = bridge.0.stdout.take().expect("standard output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the bridge prints a line");
        let process = line.strip_prefix("ready ").and_then(|pid| pid.trim().parse().ok());
        let network = NetworkNamespace::of(process.expect("the bridge is ready"));
        (launcher.with_network(network.expect("the bridge has a namespace")), Some(bridge))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have exited.
        let _killed = self.0.kill();
        let _exited = self.0.wait();
    }
}
