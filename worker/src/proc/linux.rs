//! `/proc` of Linux. Processes may exit at any time, so every failure means that there is nothing.

use super::{Process, Socket};
use procfs::net::{TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process as Entry, all_processes};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub fn processes() -> Vec<Process> {
    all_processes().into_iter().flatten().flatten().filter_map(|entry| read(&entry)).collect()
}

pub fn process(pid: u32) -> Option<Process> {
    read(&open(pid)?)
}

/// Resident memory of a process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    // Not from `status`: `procfs` fails if any of its many other fields is missing, as in kernels that emulate Linux.
    let pages = open(pid)?.statm().ok()?.resident;
    // A zombie has no memory.
    (pages > 0).then(|| pages * procfs::page_size())
}

/// A variable of a process's initial environment.
pub fn environment_variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    open(pid)?.environ().ok()?.remove(OsStr::new(name)).map(OsString::into_vec)
}

/// Sockets in the network namespace of a process, or of this one.
pub fn listening_sockets(network_of: Option<u32>) -> Vec<Socket> {
    let tables = match network_of {
        None => [tcp(), tcp6()],
        Some(pid) => match open(pid) {
            Some(process) => [process.tcp(), process.tcp6()],
            None => return Vec::new(),
        },
    };
    let entries = tables.into_iter().flatten().flatten();
    let listening = entries.filter(|entry| entry.state == TcpState::Listen);
    listening
        .map(|entry| Socket {
            address: entry.local_address.ip(),
            port: entry.local_address.port(),
            user: entry.uid,
            inode: entry.inode,
        })
        .collect()
}

/// The sockets that a process has open.
pub fn socket_inodes(pid: u32) -> Vec<u64> {
    let descriptors = open(pid).and_then(|entry| entry.fd().ok()).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| match descriptor.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect()
}

/// The control group of this process, relative to where cgroups v2 are mounted.
pub fn own_cgroup() -> Option<PathBuf> {
    let groups = Entry::myself().ok()?.cgroups().ok()?;
    let own = groups.0.into_iter().find(|group| group.hierarchy == 0)?;
    own.pathname.strip_prefix('/').map(PathBuf::from)
}

fn open(pid: u32) -> Option<Entry> {
    Entry::new(i32::try_from(pid).ok()?).ok()
}

fn read(entry: &Entry) -> Option<Process> {
    let stat = entry.stat().ok()?;
    let id = |id: i32| u32::try_from(id).ok();
    Some(Process {
        pid: id(stat.pid)?,
        parent: id(stat.ppid)?,
        group: id(stat.pgrp)?,
        session: id(stat.session)?,
        user: entry.uid().ok()?,
        start: stat.starttime,
        is_zombie: matches!(stat.state, 'Z' | 'X' | 'x'),
        command: stat.comm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn own_process_is_found_with_its_memory_and_sockets() {
        let own = std::process::id();
        let found = process(own).unwrap();
        assert!(found.start > 0 && !found.is_zombie && found.parent > 0);
        assert!(processes().contains(&found));
        assert!(resident_bytes(own).unwrap() > 1024 * 1024);
        assert_eq!(environment_variable(own, "NO_SUCH_VARIABLE"), None);
        assert!(environment_variable(own, "PATH").is_some());
        assert_eq!(process(u32::MAX), None);

        let listeners = ["127.0.0.1:0", "[::1]:0"].map(TcpListener::bind).into_iter().flatten();
        for listener in listeners {
            let address = listener.local_addr().unwrap();
            let sockets = listening_sockets(None);
            let socket = sockets.iter().find(|socket| socket.port == address.port()).unwrap();
            assert_eq!(socket.address, address.ip());
            assert!(socket_inodes(own).contains(&socket.inode));
        }
    }
}
