//! Runs the functions under `cargo lambda watch`, with the local AWS of `sunaba dev --serve-aws`. `watched.rs` has the test
//! steps.

use crate::Paths;
use crate::report::Report;
use crate::{tickets, watched};
use anyhow::Context;
use kit::process::{Process, ProcessOptions};
use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub const OPERATOR: &str = "operator-of-the-watched-plane";

pub async fn run(report: &mut Report, paths: &Paths) -> anyhow::Result<()> {
    fs::create_dir_all(&paths.work)?;
    let data = TempDir::new()?;
    let plane = report.step("sunaba dev serves a local AWS", start_plane(paths, &data)).await?;
    let watch = report.step("cargo lambda watch accepts connections", Watch::start(paths, &data)).await?;
    let tested = watched::run(report, &watch.url, &plane.url).await;
    watch.stop().await;
    tested.with_context(|| format!("see {}", paths.work.join("watch.log").display()))
}

async fn start_plane(paths: &Paths, data: &TempDir) -> anyhow::Result<Process> {
    let agents = tickets::agents(&paths.work)?;
    let options = ProcessOptions {
        binary: paths.binaries.join("sunaba"),
        data: data.path().to_owned(),
        port: 0,
        token: OPERATOR.into(),
        log: Some(paths.work.join("watched-plane.log")),
        arguments: vec!["--serve-aws".into(), "0".into(), "--agents".into(), agents],
    };
    Ok(Process::start(&options).await)
}

struct Watch {
    url: String,
    process: Child,
}

impl Watch {
    async fn start(paths: &Paths, data: &TempDir) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let log = fs::File::create(paths.work.join("watch.log"))?;
        let mut programs: OsString = paths.tools.join("sam/bin").into();
        programs.push(":");
        programs.push(std::env::var_os("PATH").unwrap_or_default());
        let process = Command::new("cargo")
            .args(["lambda", "watch", "-A", "127.0.0.1", "-P", &port.to_string(), "--env-file"])
            .arg(data.path().join("plane/lambda.env"))
            .current_dir(&paths.root)
            .env("PATH", programs)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // It starts cargo, which starts the functions; the group is stopped as a whole.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start cargo lambda watch")?;
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_secs(60), listening)
            .await
            .context("cargo lambda watch does not accept connections after a minute")?;
        Ok(Self { url: format!("http://127.0.0.1:{port}"), process })
    }

    /// Sends SIGTERM to the whole process group.
    async fn stop(mut self) {
        if let Some(id) = self.process.id() {
            let signalled = Command::new("kill").args(["-TERM", "--", &format!("-{id}")]).status().await;
            // A process that does not exit is killed when it is dropped.
            let _ended = timeout(Duration::from_secs(5), self.process.wait()).await;
            drop(signalled);
        }
    }
}
