//! What developers use works in the tier `namespaces` with the network policy `public`.

use super::{Fixture, command, data_of, text};
use contract::payloads::AgentToolCompleted;
use kit::model::Script;
use kit::offline::offline_at;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A public address, which only exists in the namespace of the test.
const PUBLIC: &str = "1.0.0.1";

/// Serves registries and a repository until it is dropped.
async fn registries(fixture: &Fixture) -> (Child, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/it/worker/registries.py");
    let mut server = Command::new("python3")
        .args([script, PUBLIC])
        .arg(fixture.home.home())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).await.unwrap();
    (server, url.trim().to_owned())
}

#[test]
fn package_managers_git_and_servers_work_in_a_namespace() {
    offline_at(PUBLIC, async {
        let fixture = Fixture::new(Script::new()).await;
        let (_server, url) = registries(&fixture).await;
        let commands = [
            "npm install --no-audit --no-fund --registry $URL/npm/ sunaba-test-package >&2 && \
             node -p \"require('sunaba-test-package')\"",
            "python3 -m pip install --quiet --target lib --index-url $URL/simple --trusted-host 1.0.0.1 \
             sunaba-test-package >&2; PYTHONPATH=lib python3 -c 'import sunaba_test_package as p; print(p.text)'",
            "git clone --quiet $URL/repository.git cloned && git -C cloned log -1 --format=%s",
            "mkdir -p app/src app/.cargo && cd app && \
             printf '[source.crates-io]\\nreplace-with = \"test\"\\n[source.test]\\nregistry = \"sparse+%s/index/\"\\n' $URL \
             > .cargo/config.toml && \
             printf '[package]\\nname = \"app\"\\nedition = \"2021\"\\n[dependencies]\\nsunaba-test-package = \"1\"\\n' > Cargo.toml && \
             echo 'fn main() { println!(\"{}\", sunaba_test_package::TEXT) }' > src/main.rs && cargo run --quiet; cd ..",
            "python3 -c \"import http.server as h; s = h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler); \
             open('ready', 'w').close(); s.serve_forever()\" >/dev/null 2>&1 & \
             cat ready && curl -sf -o /dev/null http://localhost:8000/ && echo from a 'server'; kill $!",
        ];
        let steps =
            commands.iter().map(|run| command(&format!("URL={url}; rm -f ready; mkfifo ready; {run}")));
        let agent = fixture.script(&steps.chain([text("Done.")]).collect::<Vec<_>>());
        let variables = [
            ("AGENT", agent.as_str()),
            ("TASK_DESCRIPTION", "Install"),
            ("ISOLATION", "namespaces"),
            ("NETWORK", "public"),
        ];
        let worker = fixture.start_worker(&variables);
        fixture.wait_for_event("agent.completed").await;
        assert_eq!(worker.terminate().await, Some(0));
        let results: Vec<AgentToolCompleted> = data_of(&fixture.log().await);
        let log = format!("{results:#?}");
        for expected in ["from npm", "from pip", "from git", "from cargo", "from a server"] {
            assert!(log.contains(expected), "{expected} is missing: {log}");
        }
    });
}
