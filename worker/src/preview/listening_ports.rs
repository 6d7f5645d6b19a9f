//! Finds the ports on which the agent's processes listen, from `/proc`.

use crate::proc::{Process, Socket, environment_variable, listening_sockets, processes, socket_inodes};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Environment variable of the agent that its child processes inherit, with a value unique to this worker. It
/// identifies servers that outlive the command that started them (`npm run dev &`): they have neither its parent nor
/// its group.
pub const AGENT_MARKER: &str = "SUNABA_AGENT_MARKER";

/// Reports which ports were opened and closed between scans.
#[derive(Debug)]
pub struct PortWatcher {
    agent: u32,
    /// A process in the network namespace of the agent, if it has one.
    network_of: Option<u32>,
    /// Processes without the agent's marker, which are not checked again.
    unrelated: HashSet<(u32, u64)>,
    /// Known descendants of the agent by pid and start time. They remain descendants when their parent exits.
    descendants: HashSet<(u32, u64)>,
    /// Ports found by the last scan, and whether they were reported.
    ports: BTreeMap<u16, bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortChange {
    Opened {
        port: u16,
        pid: u32,
        /// Process name without arguments, which may contain secrets.
        command: String,
        /// Addresses to connect to.
        addresses: Vec<IpAddr>,
    },
    Closed {
        port: u16,
    },
}

#[derive(Debug)]
struct OpenPort {
    pid: u32,
    command: String,
    addresses: Vec<IpAddr>,
}

impl PortWatcher {
    /// `agent` is the pid of the agent, `network_of` that of a process in its network namespace, if it has one.
    pub fn new(agent: u32, network_of: Option<u32>) -> Self {
        Self {
            agent,
            network_of,
            unrelated: HashSet::new(),
            descendants: HashSet::new(),
            ports: BTreeMap::new(),
        }
    }

    /// Scans once and returns the changes. A port is reported when it is found for the second time. Blocking: reading
    /// `/proc` takes milliseconds.
    pub fn poll(&mut self) -> Vec<PortChange> {
        let processes = processes();
        let own = std::process::id();
        self.find_marked(&processes);
        let user = own_user(&processes, self.agent, own);
        if let Some(user) = user {
            let of_agent = processes.iter().filter(|process| process.user == user);
            self.descendants.extend(of_agent.map(|process| (process.pid, process.start)));
        }
        let descendants = descendants(&processes, self.agent, own, &self.descendants);
        self.descendants = descendants.iter().map(|process| (process.pid, process.start)).collect();
        let sockets = listening_sockets(self.network_of);
        let mut found = open_ports(&sockets, &descendants);
        if let Some(user) = user {
            add_ports_of_user(&mut found, user, self.agent, &sockets);
        }
        self.compare(found)
    }

    /// Adds processes with the agent's marker to its descendants.
    fn find_marked(&mut self, processes: &[Process]) {
        let Some(agent_marker) = marker(self.agent) else { return };
        let running: HashSet<(u32, u64)> =
            processes.iter().map(|process| (process.pid, process.start)).collect();
        self.unrelated.retain(|process| running.contains(process));
        for process in running {
            if self.unrelated.contains(&process) || self.descendants.contains(&process) {
                continue;
            }
            if marker(process.0).as_ref() == Some(&agent_marker) {
                self.descendants.insert(process);
            } else {
                self.unrelated.insert(process);
            }
        }
    }

    fn compare(&mut self, open: BTreeMap<u16, OpenPort>) -> Vec<PortChange> {
        let mut changes = Vec::new();
        self.ports.retain(|&port, reported| {
            let is_open = open.contains_key(&port);
            if !is_open && *reported {
                changes.push(PortChange::Closed { port });
            }
            is_open
        });
        for (port, OpenPort { pid, command, addresses }) in open {
            match self.ports.get_mut(&port) {
                None => {
                    self.ports.insert(port, false);
                }
                Some(reported) if !*reported => {
                    *reported = true;
                    changes.push(PortChange::Opened { port, pid, command, addresses });
                }
                Some(_) => {}
            }
        }
        changes
    }
}

/// The user of the agent, if it is not that of the worker. All processes of this user are the agent's.
fn own_user(processes: &[Process], agent: u32, worker: u32) -> Option<u32> {
    let user = |pid| processes.iter().find(|process| process.pid == pid).map(|process| process.user);
    user(agent).filter(|found| user(worker).is_some_and(|worker| worker != *found))
}

/// Adds sockets that a user has opened. In a container, root may not be permitted to see which of its processes did.
fn add_ports_of_user(open: &mut BTreeMap<u16, OpenPort>, user: u32, agent: u32, sockets: &[Socket]) {
    for socket in sockets.iter().filter(|socket| socket.user == user) {
        let entry = open.entry(socket.port).or_insert_with(|| OpenPort {
            pid: agent,
            command: String::new(),
            addresses: Vec::new(),
        });
        entry.add(socket.address);
    }
}

impl OpenPort {
    fn add(&mut self, listening: IpAddr) {
        for address in reachable(listening) {
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
    }
}

/// The value of [`AGENT_MARKER`] in a process's initial environment.
fn marker(pid: u32) -> Option<Vec<u8>> {
    environment_variable(pid, AGENT_MARKER)
}

/// The agent and its descendants: child processes, known or marked ones whose parent has exited, and members of a
/// process group or session that one of them leads. Never the worker.
fn descendants<'a>(
    processes: &'a [Process],
    agent: u32,
    worker: u32,
    known: &HashSet<(u32, u64)>,
) -> Vec<&'a Process> {
    let mut members: HashSet<u32> = HashSet::from([agent]);
    members.extend(
        processes
            .iter()
            .filter(|process| known.contains(&(process.pid, process.start)))
            .map(|process| process.pid),
    );
    // A child may be listed before its parent, so repeat until nothing is added.
    loop {
        let count = members.len();
        for process in processes.iter().filter(|process| process.pid != worker) {
            let related = [process.parent, process.group, process.session];
            if related.iter().any(|pid| members.contains(pid)) {
                members.insert(process.pid);
            }
        }
        if members.len() == count {
            break;
        }
    }
    processes.iter().filter(|process| process.pid != worker && members.contains(&process.pid)).collect()
}

/// Listening sockets of these processes, by port.
fn open_ports(sockets: &[Socket], processes: &[&Process]) -> BTreeMap<u16, OpenPort> {
    let by_inode: HashMap<u64, &Socket> = sockets.iter().map(|socket| (socket.inode, socket)).collect();
    let mut open: BTreeMap<u16, OpenPort> = BTreeMap::new();
    for process in processes {
        for socket in socket_inodes(process.pid).iter().filter_map(|inode| by_inode.get(inode)) {
            let entry = open.entry(socket.port).or_insert_with(|| OpenPort {
                pid: process.pid,
                command: process.command.clone(),
                addresses: Vec::new(),
            });
            entry.add(socket.address);
        }
    }
    open
}

/// Addresses under which this machine can connect to a socket.
fn reachable(address: IpAddr) -> Vec<IpAddr> {
    let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    match address {
        IpAddr::V4(address) if address.is_unspecified() => vec![four],
        // Usually dual-stack, and the machine may have no IPv6.
        IpAddr::V6(address) if address.is_unspecified() => vec![four, six],
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, group: u32, session: u32) -> Process {
        Process {
            pid,
            command: String::new(),
            parent,
            group,
            session,
            user: 0,
            start: u64::from(pid),
            is_zombie: false,
        }
    }

    #[test]
    fn descendants_remain_after_their_parent_exits() {
        // The worker is 5, in the session of a shell 2; the agent is 10.
        let processes = [
            process(2, 1, 2, 2),
            process(3, 2, 3, 2),
            process(5, 2, 5, 2),
            process(6, 5, 6, 2),
            process(12, 11, 10, 2),
            process(10, 5, 10, 2),
            process(11, 10, 11, 11),
            // Its parent has exited, but a descendant leads its session.
            process(13, 1, 13, 11),
            // Its parent has exited and it left the session. It was a descendant in the last scan.
            process(14, 1, 14, 14),
            // Reuses the pid of a descendant.
            Process { start: 99, ..process(15, 1, 15, 15) },
        ];
        let known = HashSet::from([(14, 14), (15, 15)]);
        let mut pids: Vec<u32> =
            descendants(&processes, 10, 5, &known).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn processes_and_sockets_of_the_agents_own_user_are_the_agents() {
        let of = |user: u32, pid: u32| Process { user, ..process(pid, 1, pid, pid) };
        let processes = [of(0, 5), of(7, 10), of(7, 20), of(0, 30)];
        assert_eq!(own_user(&processes, 10, 5), Some(7));
        assert_eq!(own_user(&processes, 30, 5), None, "it shares the user of the worker");
        let socket =
            |user: u32, port: u16| Socket { address: "0.0.0.0".parse().unwrap(), port, user, inode: 0 };
        let mut open = BTreeMap::new();
        add_ports_of_user(&mut open, 7, 10, &[socket(7, 3000), socket(0, 18000)]);
        let found: Vec<_> =
            open.iter().map(|(port, open)| (*port, open.pid, open.addresses.clone())).collect();
        assert_eq!(found, [(3000, 10, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])]);
    }

    #[test]
    fn port_is_reported_when_two_scans_find_it() {
        let mut watcher = PortWatcher::new(1, None);
        let mut scan = |ports: &[u16]| {
            let open =
                |&port: &u16| (port, OpenPort { pid: 9, command: "node".to_owned(), addresses: Vec::new() });
            let changes = watcher.compare(ports.iter().map(open).collect()).into_iter();
            changes
                .map(|change| match change {
                    PortChange::Opened { port, .. } => format!("+{port}"),
                    PortChange::Closed { port } => format!("-{port}"),
                })
                .collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(scan(&[3000, 9229]), none);
        assert_eq!(scan(&[3000]), ["+3000"]);
        assert_eq!(scan(&[3000, 5173]), none);
        assert_eq!(scan(&[5173]), ["-3000", "+5173"]);
        assert_eq!(scan(&[]), ["-5173"]);
        assert_eq!(scan(&[]), none);
    }
}
