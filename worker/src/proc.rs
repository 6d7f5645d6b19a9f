//! Processes and sockets of this machine, from `/proc`. Where that does not exist, there are none.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{
    environment_variable, listening_sockets, own_cgroup, process, processes, resident_bytes, socket_inodes,
};

use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has `/proc`"))]
pub struct Process {
    pub pid: u32,
    pub command: String,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The user that it runs as.
    pub user: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// A zombie keeps its pid but does not run.
    pub is_zombie: bool,
}

/// A TCP socket that accepts connections.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has `/proc`"))]
pub struct Socket {
    pub address: IpAddr,
    pub port: u16,
    /// The user that opened it.
    pub user: u32,
    pub inode: u64,
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::{Process, Socket};
    use std::path::PathBuf;

    pub fn processes() -> Vec<Process> {
        Vec::new()
    }

    pub fn process(_pid: u32) -> Option<Process> {
        None
    }

    pub fn resident_bytes(_pid: u32) -> Option<u64> {
        None
    }

    pub fn environment_variable(_pid: u32, _name: &str) -> Option<Vec<u8>> {
        None
    }

    pub fn listening_sockets(_network_of: Option<u32>) -> Vec<Socket> {
        Vec::new()
    }

    pub fn socket_inodes(_pid: u32) -> Vec<u64> {
        Vec::new()
    }

    pub fn own_cgroup() -> Option<PathBuf> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
pub use other::{
    environment_variable, listening_sockets, own_cgroup, process, processes, resident_bytes, socket_inodes,
};
