//! Detects dev servers of the agent: finds ports on which its processes listen, probes them over HTTP, and emits
//! events.
//!
//! No port is configured. `PortWatcher` finds listening sockets of the agent's processes in `/proc`; `run` requests the
//! first page of each. A socket is reported only when two consecutive scans find it, because debuggers and tests open
//! many short-lived ones. The port of an agent in a network namespace is forwarded from one of the machine. Deliberately
//! absent: starting a server, which is up to the agent, and making a port of the machine reachable from outside, which is
//! up to the provider.

mod listening_ports;
mod loopback;
mod probe;

pub use listening_ports::{AGENT_MARKER, PortChange, PortWatcher};
pub use loopback::Loopback;
pub use probe::{Page, ProbeError, probe};

use crate::event::{Event, first_chars};
use crate::tasks::joined;
use contract::payloads::{PreviewFailed, PreviewReady, PreviewStarting, PreviewStopped};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Servers that are reported at the same time. Each takes a port of the machine.
const MAX_SERVERS: usize = 32;
/// How long a server may take to serve its first page.
const READY_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum length of a reported error.
const MAX_ERROR_CHARS: usize = 500;

/// Watches the agent's ports until the receiver of `sender` is dropped.
pub async fn run(agent: u32, loopback: Loopback, sender: mpsc::Sender<Event>) {
    run_with(agent, loopback, sender, SCAN_INTERVAL, READY_TIMEOUT).await;
}

async fn run_with(
    agent: u32,
    loopback: Loopback,
    sender: mpsc::Sender<Event>,
    interval: Duration,
    ready_timeout: Duration,
) {
    let mut watcher = PortWatcher::new(agent, loopback.process());
    let mut probes = JoinSet::new();
    let mut running: HashMap<u16, AbortHandle> = HashMap::new();
    let mut forwarded = Forwarded::default();
    let mut reported = HashSet::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let mut events = Vec::new();
        tokio::select! {
            () = sender.closed() => return,
            Some(probed) = probes.join_next() => match probed {
                // Ignore the result if the port was closed meanwhile.
                Ok((port, probed)) if running.remove(&port).is_some() => {
                    events.push(probe_event(port, probed, &mut forwarded, &loopback).await);
                }
                probed => {
                    // If not a panic, the probe was aborted because its port was closed.
                    joined(probed);
                    continue;
                }
            },
            _ = ticks.tick() => {
                let polled = tokio::task::spawn_blocking(move || {
                    let changes = watcher.poll();
                    (watcher, changes)
                });
                let Some((polled_watcher, changes)) = joined(polled.await) else { return };
                watcher = polled_watcher;
                for change in changes {
                    match change {
                        PortChange::Opened { port, .. } if !loopback.is_of_agent(port) || reported.len() >= MAX_SERVERS => {}
                        PortChange::Closed { port } if !reported.remove(&port) => {}
                        PortChange::Opened { port, command, addresses, .. } => {
                            reported.insert(port);
                            let process = command.clone();
                            events.push(Event::worker(PreviewStarting { port, process }));
                            let loopback = loopback.clone();
                            let handle = probes.spawn(async move {
                                (port, probe(&loopback, port, &addresses, &command, ready_timeout).await)
                            });
                            running.insert(port, handle);
                        }
                        PortChange::Closed { port } => {
                            if let Some(handle) = running.remove(&port) {
                                handle.abort();
                            }
                            forwarded.close(port);
                            events.push(Event::worker(PreviewStopped { port }));
                        }
                    }
                }
            }
        }
        for event in events {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// Ports of the machine that are forwarded to ports of the agent, by these.
#[derive(Default)]
struct Forwarded {
    servers: JoinSet<()>,
    by_port: HashMap<u16, AbortHandle>,
}

impl Forwarded {
    /// The port of the machine for a port of the agent, if they differ.
    async fn open(&mut self, port: u16, loopback: &Loopback) -> std::io::Result<Option<u16>> {
        let Some((opened, server)) = loopback.forward(port).await? else { return Ok(None) };
        self.close(port);
        self.by_port.insert(port, self.servers.spawn(server));
        Ok(Some(opened))
    }

    fn close(&mut self, port: u16) {
        if let Some(server) = self.by_port.remove(&port) {
            server.abort();
        }
        while self.servers.try_join_next().is_some() {}
    }
}

async fn probe_event(
    port: u16,
    probed: Result<Page, ProbeError>,
    forwarded: &mut Forwarded,
    loopback: &Loopback,
) -> Event {
    let ready = match probed {
        Ok(page) => {
            forwarded.open(port, loopback).await.map(|opened| (page, opened)).map_err(|why| why.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    match ready {
        Ok((page, forwarded_port)) => Event::worker(PreviewReady {
            port,
            forwarded_port,
            url: format!("http://localhost:{}", forwarded_port.unwrap_or(port)),
            framework: page.framework.map(str::to_owned),
            title: page.title,
        }),
        Err(error) => {
            let error = first_chars(&error, MAX_ERROR_CHARS).to_owned();
            Event::worker(PreviewFailed { port, error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use tokio::process::{Child, Command};
    use tokio::time::timeout;

    const SERVER: &str = "import http.server, sys; \
        http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler).serve_forever()";
    const UNRESPONSIVE: &str =
        "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(300)";

    /// An agent with the script as its grandchild. Both are killed on drop.
    struct Agent(Child);

    impl Agent {
        fn start(script: &str, dir: &std::path::Path) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", "python3 -c \"$1\" & wait", "sh", script]).current_dir(dir).process_group(0);
            Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        }

        fn pid(&self) -> u32 {
            self.0.id().unwrap()
        }
    }

    impl Drop for Agent {
        fn drop(&mut self) {
            let leader = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
            rustix::process::kill_process_group(leader, rustix::process::Signal::KILL).unwrap();
        }
    }

    async fn next(events: &mut mpsc::Receiver<Event>) -> Event {
        timeout(Duration::from_secs(60), events.recv())
            .await
            .expect("timed out")
            .expect("the watcher has stopped")
    }

    #[tokio::test]
    async fn server_start_and_stop_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("index.html"), "<html><TITLE> My\n shop </TITLE></html>").unwrap();
        let agent = Agent::start(SERVER, dir.path());
        let (sender, mut events) = mpsc::channel(16);
        let watching = tokio::spawn(run_with(
            agent.pid(),
            Loopback::Machine,
            sender,
            Duration::from_millis(100),
            READY_TIMEOUT,
        ));

        let starting = next(&mut events).await;
        assert_eq!(starting.event_type, "preview.starting");
        assert!(starting.data["process"].as_str().unwrap().contains("python"), "{starting:?}");
        let ready = next(&mut events).await;
        assert_eq!(
            (ready.event_type.as_str(), &ready.data["port"]),
            ("preview.ready", &starting.data["port"])
        );
        assert_eq!(ready.data["url"], format!("http://localhost:{}", starting.data["port"]));
        assert_eq!((&ready.data["title"], &ready.data["framework"]), (&"My shop".into(), &"python".into()));

        drop(agent);
        let stopped = next(&mut events).await;
        assert_eq!(
            (stopped.event_type.as_str(), &stopped.data["port"]),
            ("preview.stopped", &starting.data["port"])
        );
        drop(events);
        timeout(Duration::from_secs(60), watching)
            .await
            .expect("the watcher stops when the receiver is dropped")
            .unwrap();
    }

    /// Like `npm run dev &`: the command that started the server has exited before the first scan.
    #[tokio::test]
    async fn orphaned_server_is_recognized_by_its_marker() {
        let dir = tempfile::tempdir().unwrap();
        let orphan =
            format!("import os, signal\nif os.fork(): os._exit(0)\nos.setsid()\nsignal.alarm(60)\n{SERVER}");
        let spawn = |script: &str, arguments: &[&str]| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).args(arguments).current_dir(dir.path()).process_group(0);
            // A unique marker, because the orphan of an earlier run may still exist.
            command.env(AGENT_MARKER, dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let agent = Agent(spawn("sleep 300; :", &[]));
        spawn("python3 -c \"$0\"", &[&orphan]).wait().await.unwrap();
        let (sender, mut events) = mpsc::channel(16);
        let watching = tokio::spawn(run_with(
            agent.pid(),
            Loopback::Machine,
            sender,
            Duration::from_millis(100),
            READY_TIMEOUT,
        ));
        assert_eq!(next(&mut events).await.event_type, "preview.starting");
        assert_eq!(next(&mut events).await.event_type, "preview.ready");
        watching.abort();
    }

    #[tokio::test]
    async fn unresponsive_port_is_reported_as_failed_once() {
        let dir = tempfile::tempdir().unwrap();
        let agent = Agent::start(UNRESPONSIVE, dir.path());
        let (sender, mut events) = mpsc::channel(16);
        let watching = tokio::spawn(run_with(
            agent.pid(),
            Loopback::Machine,
            sender,
            Duration::from_millis(100),
            Duration::from_millis(300),
        ));
        assert_eq!(next(&mut events).await.event_type, "preview.starting");
        let failed = next(&mut events).await;
        assert_eq!(failed.event_type, "preview.failed");
        assert!(failed.data["error"].as_str().unwrap().contains("did not respond"), "{failed:?}");
        drop(agent);
        assert_eq!(next(&mut events).await.event_type, "preview.stopped");
        watching.abort();
    }
}
