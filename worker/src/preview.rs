//! Dev servers that an agent starts: a port on which one of its processes listens is noticed, tried, and told.
//!
//! No port is fixed. `Watch` finds sockets that listen and belong to the agent's processes, by what `/proc` says; `run`
//! asks each for its first page and tells when it has one. A socket that is seen only once is not told: debuggers and
//! tests open many and close them at once. Deliberately absent: starting a server, and making a port reachable from
//! outside. The first is the agent's work, the second the sandbox's.

mod listening;
mod probe;

pub use listening::{Change, MARK, Watch};
pub use probe::{Page, Unready, probe};

use crate::event::{Event, first_chars};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// How often sockets are looked at.
const EVERY: Duration = Duration::from_secs(2);
/// How long a server may take to its first page.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest error that is told.
const ERROR_CHARS: usize = 500;

/// Watches the agent's ports and tells of them, until nobody listens any more.
pub async fn run(agent: u32, tell: mpsc::Sender<Event>) {
    run_with(agent, tell, EVERY, PATIENCE).await;
}

async fn run_with(agent: u32, tell: mpsc::Sender<Event>, every: Duration, patience: Duration) {
    let mut watch = Watch::new(agent);
    let mut probes = JoinSet::new();
    let mut running: HashMap<u16, AbortHandle> = HashMap::new();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let mut events = Vec::new();
        tokio::select! {
            () = tell.closed() => return,
            Some(probed) = probes.join_next() => match probed {
                // Whoever is closed already is not ready any more, even if it just was.
                Ok((port, probed)) if running.remove(&port).is_some() => events.push(outcome(port, probed)),
                // It was given up because its port is closed.
                _ => continue,
            },
            _ = ticks.tick() => {
                let polled = tokio::task::spawn_blocking(move || {
                    let changes = watch.poll();
                    (watch, changes)
                });
                let Ok((watched, changes)) = polled.await else { return };
                watch = watched;
                for change in changes {
                    match change {
                        Change::Opened { port, command, addresses, .. } => {
                            let starting = Event::worker("preview.starting").with("port", port);
                            events.push(starting.with("process", command.as_str()));
                            let handle = probes.spawn(async move {
                                (port, probe(port, &addresses, &command, patience).await)
                            });
                            running.insert(port, handle);
                        }
                        Change::Closed { port } => {
                            if let Some(handle) = running.remove(&port) {
                                handle.abort();
                            }
                            events.push(Event::worker("preview.stopped").with("port", port));
                        }
                    }
                }
            }
        }
        for event in events {
            if tell.send(event).await.is_err() {
                return;
            }
        }
    }
}

fn outcome(port: u16, probed: Result<Page, Unready>) -> Event {
    match probed {
        Ok(page) => Event::worker("preview.ready")
            .with("port", port)
            .with("url", format!("http://localhost:{port}"))
            .with("framework", page.framework)
            .with_some("title", page.title),
        Err(unready) => {
            let error = unready.to_string();
            Event::worker("preview.failed").with("port", port).with("error", first_chars(&error, ERROR_CHARS))
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
    const SILENT: &str = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(300)";

    /// An agent that runs this as its grandchild. Both end with it.
    struct Agent(Child);

    impl Agent {
        fn start(script: &str, folder: &std::path::Path) -> Self {
            let mut command = Command::new("sh");
            command
                .args(["-c", "python3 -c \"$1\" & wait", "sh", script])
                .current_dir(folder)
                .process_group(0);
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
        timeout(Duration::from_secs(60), events.recv()).await.expect("in time").expect("still watching")
    }

    #[tokio::test]
    async fn a_server_is_noticed_whatever_its_port_and_its_end_too() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "<html><TITLE> My\n shop </TITLE></html>").unwrap();
        let agent = Agent::start(SERVER, folder.path());
        let (tell, mut events) = mpsc::channel(16);
        let watching = tokio::spawn(run_with(agent.pid(), tell, Duration::from_millis(100), PATIENCE));

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
        timeout(Duration::from_secs(60), watching).await.expect("it ends when nobody listens").unwrap();
    }

    /// What `npm run dev &` leaves behind: the command has ended long before anybody looks.
    #[tokio::test]
    async fn a_server_whose_parent_is_gone_is_known_by_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let orphan =
            format!("import os, signal\nif os.fork(): os._exit(0)\nos.setsid()\nsignal.alarm(60)\n{SERVER}");
        let spawn = |script: &str, arguments: &[&str]| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).args(arguments).current_dir(folder.path()).process_group(0);
            // Its own mark: the orphan of an earlier run may still be there.
            command.env(MARK, folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let agent = Agent(spawn("sleep 300; :", &[]));
        spawn("python3 -c \"$0\"", &[&orphan]).wait().await.unwrap();
        let (tell, mut events) = mpsc::channel(16);
        let watching = tokio::spawn(run_with(agent.pid(), tell, Duration::from_millis(100), PATIENCE));
        assert_eq!(next(&mut events).await.event_type, "preview.starting");
        assert_eq!(next(&mut events).await.event_type, "preview.ready");
        watching.abort();
    }

    #[tokio::test]
    async fn a_port_that_never_answers_is_told_as_failed_once() {
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(SILENT, folder.path());
        let (tell, mut events) = mpsc::channel(16);
        let watching =
            tokio::spawn(run_with(agent.pid(), tell, Duration::from_millis(100), Duration::from_millis(300)));
        assert_eq!(next(&mut events).await.event_type, "preview.starting");
        let failed = next(&mut events).await;
        assert_eq!(failed.event_type, "preview.failed");
        assert!(failed.data["error"].as_str().unwrap().contains("did not answer"), "{failed:?}");
        drop(agent);
        assert_eq!(next(&mut events).await.event_type, "preview.stopped");
        watching.abort();
    }
}
