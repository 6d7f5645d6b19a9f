//! Which ports the agent's processes listen on, by what `/proc` says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A variable in the agent's environment that its processes inherit, with a value of this worker's own. A server that
/// was started by a command and outlives it (`npm run dev &`) has neither parent nor group that would tell whose it is.
pub const MARK: &str = "SUNABA_AGENT_OF";

/// Looks at the agent's ports, again and again.
#[derive(Debug)]
pub struct Watch {
    agent: u32,
    /// Processes that do not have the agent's mark: they are not asked again.
    strangers: HashSet<(u32, u64)>,
    /// Processes that were the agent's once, by number and start. They still are when their parent is gone.
    family: HashSet<(u32, u64)>,
    /// Ports that were seen by the last look, and whether they were told.
    ports: BTreeMap<u16, bool>,
}

/// What happened to a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Somebody listens.
    Opened {
        /// Where.
        port: u16,
        /// Which process.
        pid: u32,
        /// Its name. Not its arguments: there may be secrets among them.
        command: String,
        /// Where to find it.
        addresses: Vec<IpAddr>,
    },
    /// Nobody does any more.
    Closed {
        /// Where.
        port: u16,
    },
}

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// A process.
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
struct Found {
    pid: u32,
    command: String,
    addresses: Vec<IpAddr>,
}

impl Watch {
    /// For the agent with this process.
    pub fn new(agent: u32) -> Self {
        Self { agent, strangers: HashSet::new(), family: HashSet::new(), ports: BTreeMap::new() }
    }

    /// What changed since the last look. A port is told when it is seen for the second time. This reads files of the
    /// kernel, which takes milliseconds.
    pub fn poll(&mut self) -> Vec<Change> {
        let processes = processes();
        let own = std::process::id();
        self.find_marked(&processes);
        let family = family(&processes, self.agent, own, &self.family);
        self.family = family.iter().map(|process| (process.pid, process.start)).collect();
        let found = owned(&sockets(), &family);
        self.compare(found)
    }

    /// Counts whoever has the agent's mark as one of its processes.
    fn find_marked(&mut self, processes: &[Process]) {
        let Some(mark) = mark(self.agent) else { return };
        let there: HashSet<(u32, u64)> =
            processes.iter().map(|process| (process.pid, process.start)).collect();
        self.strangers.retain(|stranger| there.contains(stranger));
        for process in there {
            if self.strangers.contains(&process) || self.family.contains(&process) {
                continue;
            }
            if self::mark(process.0).as_ref() == Some(&mark) {
                self.family.insert(process);
            } else {
                self.strangers.insert(process);
            }
        }
    }

    fn compare(&mut self, found: BTreeMap<u16, Found>) -> Vec<Change> {
        let mut changes = Vec::new();
        self.ports.retain(|&port, told| {
            let open = found.contains_key(&port);
            if !open && *told {
                changes.push(Change::Closed { port });
            }
            open
        });
        for (port, Found { pid, command, addresses }) in found {
            match self.ports.get_mut(&port) {
                None => {
                    self.ports.insert(port, false);
                }
                Some(told) if !*told => {
                    *told = true;
                    changes.push(Change::Opened { port, pid, command, addresses });
                }
                Some(_) => {}
            }
        }
        changes
    }
}

/// The value of [`MARK`] that a process was started with.
fn mark(pid: u32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    value.map(<[u8]>::to_vec)
}

/// The agent's processes: its descendants, whoever was one or is marked as one and has lost its parent, and whoever is in a group or session
/// that one of them leads. Never the worker.
fn family<'a>(
    processes: &'a [Process],
    agent: u32,
    worker: u32,
    before: &HashSet<(u32, u64)>,
) -> Vec<&'a Process> {
    let mut members: HashSet<u32> = HashSet::from([agent]);
    members.extend(
        processes
            .iter()
            .filter(|process| before.contains(&(process.pid, process.start)))
            .map(|process| process.pid),
    );
    // A child may be listed before its parent: until nobody joins any more.
    loop {
        let known = members.len();
        for process in processes.iter().filter(|process| process.pid != worker) {
            let kin = [process.parent, process.group, process.session];
            if kin.iter().any(|kin| members.contains(kin)) {
                members.insert(process.pid);
            }
        }
        if members.len() == known {
            break;
        }
    }
    processes.iter().filter(|process| process.pid != worker && members.contains(&process.pid)).collect()
}

/// The sockets of these processes, by port.
fn owned(sockets: &[Socket], family: &[&Process]) -> BTreeMap<u16, Found> {
    let by_inode: HashMap<u64, &Socket> = sockets.iter().map(|socket| (socket.inode, socket)).collect();
    let mut found: BTreeMap<u16, Found> = BTreeMap::new();
    for process in family {
        for socket in inodes(process.pid).iter().filter_map(|inode| by_inode.get(inode)) {
            let entry = found.entry(socket.port).or_insert_with(|| Found {
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
    found
}

/// Where a socket is found from this machine.
fn reachable(address: IpAddr) -> Vec<IpAddr> {
    let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    match address {
        IpAddr::V4(address) if address.is_unspecified() => vec![four],
        // It usually takes both, and the machine may have no address of the newer kind.
        IpAddr::V6(address) if address.is_unspecified() => vec![four, six],
        other => vec![other],
    }
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Whoever is gone meanwhile has no file any more.
    pids.filter_map(|pid| process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

fn sockets() -> Vec<Socket> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok());
    tables.flat_map(|table| table.lines().filter_map(listening).collect::<Vec<_>>()).collect()
}

fn inodes(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| socket_inode(link.to_str()?)).collect()
}

fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A line of `/proc/<pid>/stat`. The name is in parentheses, and may hold anything, parentheses too.
fn process(stat: &str) -> Option<Process> {
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

/// A line of `/proc/net/tcp` or `tcp6`, if its socket listens (state `0A`).
fn listening(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != "0A" {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Socket { address: ip(address)?, port, inode: fields.get(9)?.parse().ok()? })
}

/// An address as the kernel prints it: words of four bytes, each in the machine's own order.
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
    fn sockets_that_listen_are_read() {
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
            assert_eq!(listening(&line), socket, "{line}");
        }
    }

    #[test]
    fn processes_are_read_whatever_their_name() {
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
            assert_eq!(process(&stat), Some(expected));
        }
        assert_eq!(process("42 (cut"), None);
        assert_eq!((socket_inode("socket:[77]"), socket_inode("pipe:[77]")), (Some(77), None));
        assert!(process(&fs::read_to_string("/proc/self/stat").unwrap()).is_some_and(|own| own.start > 0));
    }

    fn someone(pid: u32, parent: u32, group: u32, session: u32) -> Process {
        Process { pid, command: String::new(), parent, group, session, start: u64::from(pid) }
    }

    #[test]
    fn the_family_is_whoever_descends_from_the_agent_or_once_did() {
        // The worker is 5, in the session of a shell 2; the agent is 10.
        let processes = [
            someone(2, 1, 2, 2),
            someone(3, 2, 3, 2),
            someone(5, 2, 5, 2),
            someone(6, 5, 6, 2),
            someone(12, 11, 10, 2),
            someone(10, 5, 10, 2),
            someone(11, 10, 11, 11),
            // Lost its parent, but is in a session that a member leads.
            someone(13, 1, 13, 11),
            // Lost its parent and left the session. It was a member at the last look.
            someone(14, 1, 14, 14),
            // Has the number of one that was.
            Process { start: 99, ..someone(15, 1, 15, 15) },
        ];
        let before = HashSet::from([(14, 14), (15, 15)]);
        let mut pids: Vec<u32> =
            family(&processes, 10, 5, &before).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn a_port_is_told_when_it_stays() {
        let mut watch = Watch::new(1);
        let mut look = |ports: &[u16]| {
            let found =
                |&port: &u16| (port, Found { pid: 9, command: "node".to_owned(), addresses: Vec::new() });
            let changes = watch.compare(ports.iter().map(found).collect()).into_iter();
            changes
                .map(|change| match change {
                    Change::Opened { port, .. } => format!("+{port}"),
                    Change::Closed { port } => format!("-{port}"),
                })
                .collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(look(&[3000, 9229]), none);
        assert_eq!(look(&[3000]), ["+3000"]);
        assert_eq!(look(&[3000, 5173]), none);
        assert_eq!(look(&[5173]), ["-3000", "+5173"]);
        assert_eq!(look(&[]), ["-5173"]);
        assert_eq!(look(&[]), none);
    }
}
