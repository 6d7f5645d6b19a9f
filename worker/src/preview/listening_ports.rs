//! Finds the ports on which the agent's processes listen, from `/proc`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Environment variable of the agent that its child processes inherit, with a value unique to this worker. It
/// identifies servers that outlive the command that started them (`npm run dev &`): they have neither its parent nor
/// its group.
pub const AGENT_MARKER: &str = "SUNABA_AGENT_MARKER";

/// Reports which ports were opened and closed between scans.
#[derive(Debug)]
pub struct PortWatcher {
    agent: u32,
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

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    command: String,
    parent: u32,
    group: u32,
    session: u32,
    start: u64,
}

#[derive(Debug)]
struct OpenPort {
    pid: u32,
    command: String,
    addresses: Vec<IpAddr>,
}

impl PortWatcher {
    /// `agent` is the pid of the agent.
    pub fn new(agent: u32) -> Self {
        Self { agent, unrelated: HashSet::new(), descendants: HashSet::new(), ports: BTreeMap::new() }
    }

    /// Scans once and returns the changes. A port is reported when it is found for the second time. Blocking: reading
    /// `/proc` takes milliseconds.
    pub fn poll(&mut self) -> Vec<PortChange> {
        let processes = processes();
        let own = std::process::id();
        self.find_marked(&processes);
        let descendants = descendants(&processes, self.agent, own, &self.descendants);
        self.descendants = descendants.iter().map(|process| (process.pid, process.start)).collect();
        let found = open_ports(&sockets(), &descendants);
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

/// The value of [`AGENT_MARKER`] in a process's initial environment.
fn marker(pid: u32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(AGENT_MARKER.as_bytes())?.strip_prefix(b"="));
    value.map(<[u8]>::to_vec)
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
        for socket in inodes(process.pid).iter().filter_map(|inode| by_inode.get(inode)) {
            let entry = open.entry(socket.port).or_insert_with(|| OpenPort {
                pid: process.pid,
                command: process.command.clone(),
                addresses: Vec::new(),
            });
            for address in reachable(socket.address) {
                if !entry.addresses.contains(&address) {
                    entry.addresses.push(address);
                }
            }
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

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Skip processes that have exited meanwhile.
    pids.filter_map(|pid| parse_process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

fn sockets() -> Vec<Socket> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok());
    tables.flat_map(|table| table.lines().filter_map(parse_listening).collect::<Vec<_>>()).collect()
}

fn inodes(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| socket_inode(link.to_str()?)).collect()
}

fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Parses `/proc/<pid>/stat`. The name is in parentheses and may contain any character, including parentheses.
fn parse_process(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (command, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        command: command.to_owned(),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Parses a line of `/proc/net/tcp` or `tcp6`. `None` unless the socket is listening (state `0A`).
fn parse_listening(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != "0A" {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Socket { address: ip(address)?, port, inode: fields.get(9)?.parse().ok()? })
}

/// Parses an address as the kernel prints it: four-byte words in native byte order.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let word = u32::from_str_radix(hex.get(index * 8..index * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_parsed() {
        let line = |address: &str, state: &str| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 4711 1 0"
            )
        };
        for (line, socket) in [
            (line("0100007F:1F90", "0A"), Some(("127.0.0.1", 8080))),
            (line("00000000:0050", "0A"), Some(("0.0.0.0", 80))),
            (line("00000000000000000000000000000000:0BB8", "0A"), Some(("::", 3000))),
            (line("00000000000000000000000001000000:0BB8", "0A"), Some(("::1", 3000))),
            (line("0100007F:1F90", "01"), None),
            (line("0100:1F90", "0A"), None),
            (
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
                    .to_owned(),
                None,
            ),
            (String::new(), None),
        ] {
            let socket =
                socket.map(|(address, port)| Socket { address: address.parse().unwrap(), port, inode: 4711 });
            assert_eq!(parse_listening(&line), socket, "{line}");
        }
    }

    #[test]
    fn process_names_with_parentheses_are_parsed() {
        let rest = "4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        for (stat, command) in [
            (format!("42 (node) S 7 40 41 0 -1 {rest}"), "node"),
            (format!("42 (a) (b c) S 7 40 41 0 -1 {rest}"), "a) (b c"),
        ] {
            let expected = Process {
                pid: 42,
                command: command.to_owned(),
                parent: 7,
                group: 40,
                session: 41,
                start: 987_654,
            };
            assert_eq!(parse_process(&stat), Some(expected));
        }
        assert_eq!(parse_process("42 (cut"), None);
        assert_eq!((socket_inode("socket:[77]"), socket_inode("pipe:[77]")), (Some(77), None));
        assert!(
            parse_process(&fs::read_to_string("/proc/self/stat").unwrap()).is_some_and(|own| own.start > 0)
        );
    }

    fn process(pid: u32, parent: u32, group: u32, session: u32) -> Process {
        Process { pid, command: String::new(), parent, group, session, start: u64::from(pid) }
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
    fn port_is_reported_when_two_scans_find_it() {
        let mut watcher = PortWatcher::new(1);
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
