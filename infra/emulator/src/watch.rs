//! `cargo lambda watch` on the AWS of `sunaba dev --serve-aws`: the functions as they are edited.

use crate::Places;
use crate::report::Report;
use anyhow::{Context, ensure};
use kit::process::{Process, Recipe};
use kit::socket::Socket;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const OPERATOR: &str = "operator-of-the-watched-plane";
/// The first request to a function waits for its build.
const PATIENCE: Duration = Duration::from_secs(900);

/// Posts one event through a watched function, and sees it come out of the plane.
pub async fn run(report: &mut Report, places: &Places) -> anyhow::Result<()> {
    fs::create_dir_all(&places.work)?;
    let data = TempDir::new()?;
    let plane = report.step("sunaba dev serves its AWS", start_plane(places, &data)).await?;
    let watch = report.step("cargo lambda watch listens", Watch::start(places, &data)).await?;
    let through = report.step("watched functions register, store and read", watch.drive(&plane)).await;
    watch.stop().await;
    through.with_context(|| format!("see {}", places.work.join("watch.log").display()))
}

async fn start_plane(places: &Places, data: &TempDir) -> anyhow::Result<Process> {
    let recipe = Recipe {
        binary: places.binaries.join("sunaba"),
        data: data.path().to_owned(),
        port: 0,
        token: OPERATOR.into(),
        log: Some(places.work.join("watched-plane.log")),
        arguments: vec!["--serve-aws".into(), "0".into()],
    };
    Ok(Process::start(&recipe).await)
}

struct Watch {
    url: String,
    process: Child,
}

impl Watch {
    async fn start(places: &Places, data: &TempDir) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let log = fs::File::create(places.work.join("watch.log"))?;
        let mut programs: OsString = places.tools.join("sam/bin").into();
        programs.push(":");
        programs.push(std::env::var_os("PATH").unwrap_or_default());
        let process = Command::new("cargo")
            .args(["lambda", "watch", "-A", "127.0.0.1", "-P", &port.to_string(), "--env-file"])
            .arg(data.path().join("lambda.env"))
            .current_dir(&places.root)
            .env("PATH", programs)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // It starts cargo, which starts the functions: they end together.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start cargo lambda watch")?;
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_secs(60), listening).await.context("it does not listen after a minute")?;
        Ok(Self { url: format!("http://127.0.0.1:{port}"), process })
    }

    async fn drive(&self, plane: &Process) -> anyhow::Result<()> {
        let body = json!({"sandbox_id": "s-1", "org": "acme"});
        let (status, registered) = self.post("/api/v1/sandboxes", OPERATOR, &body).await?;
        ensure!(status == 201, "{status} {registered}");
        let worker = registered["worker_token"].as_str().context("no worker token")?;
        let address = format!("{}/api/v1/ws/events?token={OPERATOR}", plane.url.replacen("http", "ws", 1));
        let opened = Socket::open(&address).await;
        let mut socket = opened.map_err(|status| anyhow::anyhow!("the socket was refused: {status}"))?;
        let event = json!({"event_type": "agent.message", "event_data": {"text": "while you edit"}});
        let (status, stored) = self.post("/api/v1/sandboxes/s-1/events", worker, &event).await?;
        ensure!(status == 200, "{status} {stored}");
        let frame =
            timeout(Duration::from_secs(60), socket.next()).await.context("the plane says nothing")?;
        ensure!(frame.is_some_and(|frame| frame["id"] == stored["event_id"]), "another event came");
        let page = reqwest::Client::new().get(format!("{}/api/v1/sandbox/s-1/events", self.url));
        let page: Value = page.bearer_auth(OPERATOR).timeout(PATIENCE).send().await?.json().await?;
        ensure!(page["events"][0]["event_data"]["text"] == "while you edit", "{page}");
        Ok(())
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url)).timeout(PATIENCE);
        let answer = request.bearer_auth(token).json(body).send().await?;
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// The whole group, gently: each ends what it has started.
    async fn stop(mut self) {
        if let Some(id) = self.process.id() {
            let signalled = Command::new("kill").args(["-TERM", "--", &format!("-{id}")]).status().await;
            // Whatever does not end by itself is killed when this is dropped.
            let _ended = timeout(Duration::from_secs(5), self.process.wait()).await;
            drop(signalled);
        }
    }
}
