//! The rules of ARCHITECTURE.md: which crates may depend on which, and which file owns what.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn packages() -> &'static [Value] {
    static PACKAGES: OnceLock<Vec<Value>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(root())
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        metadata["packages"].as_array().unwrap().clone()
    })
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Name and version of each package of this workspace.
pub fn workspace_versions() -> Vec<(&'static str, &'static str)> {
    packages().iter().map(|package| (name(package), package["version"].as_str().unwrap())).collect()
}

/// Names of a package's dependencies, without dev-dependencies.
fn dependencies_of(package: &Value) -> BTreeSet<String> {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| name(dependency).to_owned())
        .collect()
}

fn dependencies(package: &str) -> BTreeSet<String> {
    let found = packages().iter().find(|found| name(found) == package);
    dependencies_of(found.unwrap_or_else(|| panic!("no package {package}")))
}

/// Each layer may use those before it. The hosts use all of them, but not each other.
const LAYERS: [&str; 7] = ["domain", "contract", "providers", "code-hosts", "store", "app", "edge"];
const HOSTS: [&str; 2] = ["lambda-host", "local"];

#[test]
fn dependencies_run_one_way() {
    for (index, package) in LAYERS.iter().enumerate() {
        let used = dependencies(package);
        for later in LAYERS[index + 1..].iter().chain(&HOSTS) {
            assert!(!used.contains(*later), "{package} must not depend on {later}");
        }
    }
    // These are siblings: none uses another.
    let siblings = ["contract", "providers", "code-hosts", "store"];
    for package in siblings {
        let used = dependencies(package);
        for sibling in siblings {
            assert!(!used.contains(sibling), "{package} must not depend on {sibling}");
        }
    }
    for services in ["providers", "code-hosts"] {
        let is_used = dependencies("edge").contains(services);
        assert!(!is_used, "edge must not depend on {services}: only use cases call them");
    }
    let [lambda, local] = HOSTS;
    for (host, other) in [(lambda, local), (local, lambda)] {
        assert!(!dependencies(host).contains(other), "{host} must not depend on {other}: both are hosts");
    }
    for outside in ["client", "worker", "scripted-agent"] {
        let used = dependencies(outside);
        for inner in ["providers", "code-hosts", "store", "app", "edge"].iter().chain(&HOSTS) {
            assert!(!used.contains(*inner), "the {outside} sees the contract only, not {inner}");
        }
    }
}

#[test]
fn platform_crates_stay_in_their_layer() {
    for package in packages() {
        let (package, used) = (name(package), dependencies_of(package));
        for used in used {
            // aws-lc-rs is cryptography, not a service. Stream records carry DynamoDB attribute values.
            let aws = used.starts_with("aws-") && used != "aws-lc-rs";
            let allowed = package == "store" || HOSTS.contains(&package);
            let image = package == "edge" && used == "aws-sdk-dynamodb";
            assert!(
                !aws || allowed || image,
                "{package} must not depend on {used}: that is for store and the hosts"
            );
            let lambda = used.starts_with("lambda_") || used.starts_with("aws_lambda");
            assert!(
                !lambda || package == "lambda-host",
                "{package} must not depend on {used}: that is for lambda-host"
            );
            // `edge` fetches JWKS; `egress` forwards requests of agents; `client` and the rest call planes from outside.
            let callers = ["providers", "code-hosts", "edge", "egress", "client", "local", "kit", "emulator"];
            assert!(
                used != "reqwest" || callers.contains(&package),
                "{package} must not depend on {used}: requests to other services are for providers and code-hosts"
            );
            let web = ["axum", "hyper", "tower", "tower-http"].contains(&used.as_str());
            // The proxy and the endpoints of agents are HTTP servers, but know no web framework.
            let serves_agents = package == "egress" && used == "hyper";
            let allowed = serves_agents || ["local", "kit", "bench"].contains(&package);
            assert!(
                !web || allowed,
                "{package} must not depend on {used}: a web framework is for local and the tests"
            );
        }
    }
    for name in dependencies("domain") {
        let pure = ["base64", "percent-encoding", "schemars", "serde", "serde_json", "thiserror", "time"]
            .contains(&name.as_str());
        assert!(pure, "domain is pure: {name} needs a decision record and a line here");
    }
}

/// A provider is a folder and a line: hosts and the generator of the template read its registration.
#[test]
fn hosts_name_no_remote_provider() {
    let hosts = ["local/src", "shared/lambda-host/src", "shared/edge/src", "shared/app/src"];
    let of_hosts = sources().into_iter().filter(|(file, _)| hosts.iter().any(|host| file.starts_with(host)));
    for (file, code) in of_hosts.chain(sources_in(&["infra/codegen/src"])) {
        for kind in providers::PROVIDERS {
            let found = code.to_lowercase().contains(kind.name);
            assert!(!found, "{file} names {}: use providers::PROVIDERS", kind.name);
        }
    }
}

/// The program for sandboxes has only what a real agent needs.
#[test]
fn scripted_agent_is_not_part_of_the_worker() {
    assert!(!dependencies("worker").contains("scripted-agent"));
    for (file, code) in sources().iter().filter(|(file, _)| file.starts_with("worker/src")) {
        assert!(!code.contains("scripted_agent"), "{file}");
    }
}

/// An agent is a folder and a line: the rest of the worker knows the trait only.
#[test]
fn only_agents_know_an_agent() {
    for (file, code) in sources().iter().filter(|(file, _)| file.starts_with("worker/src")) {
        let is_agent = file.starts_with("worker/src/agents/");
        for adapter in ["agents::claude", "agents::acp", "claude::", "acp::"] {
            assert!(is_agent || !code.contains(adapter), "{file} names {adapter}: use agents::Agent");
        }
    }
}

/// The binary is one line; everything else is in the host.
#[test]
fn functions_depend_only_on_their_host() {
    assert_eq!(dependencies("functions"), ["lambda-host", "tokio"].map(String::from).into());
}

/// Path and text of every Rust file of the libraries, hosts and functions, without tests.
pub fn sources() -> Vec<(String, String)> {
    let found = sources_in(&["shared", "functions", "local/src", "worker/src", "worker/scripted-agent/src"]);
    assert!(found.len() > 30, "found too few sources: update the list of folders");
    found
}

/// Path and text of every source file in these folders, without tests.
fn sources_in(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            if is_test_only(stem) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().display().to_string(), without_tests(&text)));
            }
        }
    }
    found
}

/// Whether a file or folder of this name is built for tests only.
fn is_test_only(stem: &str) -> bool {
    stem.ends_with("tests") || ["golden", "fake_plane"].contains(&stem)
}

/// The text up to an inline test module. A declaration such as `mod tests;` does not end it.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut parts = text.split("#[cfg(test)]\n");
    code.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let declaration_only =
            part.lines().find(|line| !line.starts_with("#[")).is_some_and(|line| line.ends_with(';'));
        if !declaration_only {
            break;
        }
        code.push_str(part);
    }
    code
}

#[test]
fn only_keys_rs_builds_table_keys() {
    for (file, code) in sources() {
        for prefix in [
            "\"SANDBOX#",
            "\"LOG#",
            "\"BODY#",
            "\"IDEMPOTENCY#",
            "\"CONNECTION#",
            "\"TOPIC#",
            "\"REALM#",
            "\"ORG#",
            "\"SESSION#",
            "\"TASK#",
            "\"TICKET#",
            "\"QUEUE#",
            "\"READY#",
            "\"DUE#",
            "\"BLOCKS#",
            "\"PROVIDER#",
        ] {
            let allowed = file == "shared/store/src/keys.rs" || !code.contains(prefix);
            assert!(allowed, "{file} contains {prefix}: build keys in keys.rs");
        }
    }
}

/// Except for workers: they generate the ids of their own events.
#[test]
fn only_the_id_source_generates_ids_and_secrets() {
    for (file, code) in sources() {
        let allowed = file == "shared/app/src/ids.rs" || file.starts_with("worker/");
        for generator in ["now_v7", "new_v4", "rand::random"] {
            let found = !allowed && code.contains(generator);
            assert!(
                !found,
                "{file} calls {generator}: take ids from app::IdSource, secrets from app::ids::secret"
            );
        }
    }
}

#[test]
fn only_config_reads_the_environment() {
    for (file, code) in sources() {
        let is_config = file.ends_with("config.rs");
        assert!(
            is_config || !code.contains("env::var"),
            "{file} reads the environment: do that in config.rs"
        );
    }
}

#[test]
fn only_the_clock_reads_the_time() {
    for (file, code) in sources() {
        let is_clock = file.ends_with("clock.rs");
        assert!(is_clock || !code.contains("SystemTime::now"), "{file} reads the time: use app::Clock");
    }
}

/// Everything that runs what the agent wrote is confined, and gets no variable of the worker by inheritance.
#[test]
fn only_the_launcher_starts_programs_for_the_worker() {
    let owners = ["launcher", "helper", "namespace"].map(|name| format!("worker/confine/src/{name}.rs"));
    // Git in the repository of the worker, with the credential. Nothing in it is of the agent but packs and references.
    let owners = owners.into_iter().chain(["worker/src/relay/git.rs".to_owned()]);
    let mut found = BTreeSet::new();
    for (path, text) in sources_in(&["worker/src", "worker/confine/src"]) {
        if without_tests(&text).contains("Command::new(") {
            found.insert(path);
        }
    }
    assert_eq!(found, owners.collect(), "start programs with `confine::Launcher`");
}
