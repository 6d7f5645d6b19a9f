//! The lines of ARCHITECTURE.md: what may depend on what, and who may spell what.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The packages of this workspace, as cargo sees them.
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

/// Each package of this workspace, and its version.
pub fn workspace_versions() -> Vec<(&'static str, &'static str)> {
    packages().iter().map(|package| (name(package), package["version"].as_str().unwrap())).collect()
}

/// Names of the dependencies that a package is built with. What only its tests use does not count.
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

/// Each may use those before it. The hosts use all of them, and not each other.
const LAYERS: [&str; 6] = ["domain", "contract", "providers", "store", "app", "edge"];
const HOSTS: [&str; 2] = ["lambda-host", "local"];

#[test]
fn dependencies_run_one_way() {
    for (index, package) in LAYERS.iter().enumerate() {
        let used = dependencies(package);
        for later in LAYERS[index + 1..].iter().chain(&HOSTS) {
            assert!(!used.contains(*later), "{package} must not depend on {later}");
        }
    }
    // Beside the table and the wire: all of them know the rules, and none of the three another.
    let [contract, providers, store] = ["contract", "providers", "store"];
    for (one, others) in [(contract, [providers, store]), (providers, [contract, store])] {
        for other in others {
            assert!(!dependencies(one).contains(other), "{one} must not depend on {other}");
        }
    }
    assert!(!dependencies(store).contains(providers), "{store} must not depend on {providers}");
    assert!(!dependencies("edge").contains(providers), "what is done with providers is for use cases");
    let [lambda, local] = HOSTS;
    for (host, other) in [(lambda, local), (local, lambda)] {
        assert!(!dependencies(host).contains(other), "{host} must not depend on {other}: both are hosts");
    }
    for outside in ["client", "worker"] {
        let used = dependencies(outside);
        for inner in ["providers", "store", "app", "edge"].iter().chain(&HOSTS) {
            assert!(!used.contains(*inner), "the {outside} sees the contract only, not {inner}");
        }
    }
}

#[test]
fn each_layer_names_only_its_own_platform() {
    for package in packages() {
        let (package, used) = (name(package), dependencies_of(package));
        for used in used {
            // Cryptography is no service. The stream's images are attribute values.
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
            // Keys of tokens are fetched from elsewhere, and planes are talked to from outside.
            let callers = ["providers", "edge", "client", "local", "kit", "emulator"];
            assert!(
                used != "reqwest" || callers.contains(&package),
                "{package} must not depend on {used}: requests to providers are for providers"
            );
            let web = ["axum", "hyper", "tower"].contains(&used.as_str());
            let allowed = ["local", "kit", "bench"].contains(&package);
            assert!(
                !web || allowed,
                "{package} must not depend on {used}: a web framework is for local and the tests"
            );
        }
    }
    for name in dependencies("domain") {
        let pure = ["base64", "serde", "serde_json", "thiserror", "time"].contains(&name.as_str());
        assert!(pure, "domain is pure: {name} needs a decision record and a line here");
    }
}

/// The functions' program is one line, and everything else is in the host.
#[test]
fn functions_depend_on_their_host_and_nothing_else() {
    assert_eq!(dependencies("functions"), ["lambda-host", "tokio"].map(String::from).into());
}

/// Every Rust file of the libraries, hosts and functions, tests left out.
pub fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders =
        ["shared", "functions", "local/src", "worker/src"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            if is_of_tests(stem) {
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
    assert!(found.len() > 30, "the sources are not where this test looks");
    found
}

/// Files and folders that are built for tests only, by their names.
fn is_of_tests(stem: &str) -> bool {
    stem.ends_with("tests") || ["golden", "fake_plane"].contains(&stem)
}

/// A file up to the tests at its end. A module of tests that is only named leaves the rest of the file in.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut parts = text.split("#[cfg(test)]\n");
    code.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let named = part.lines().find(|line| !line.starts_with("#[")).is_some_and(|line| line.ends_with(';'));
        if !named {
            break;
        }
        code.push_str(part);
    }
    code
}

#[test]
fn only_keys_rs_spells_a_key() {
    for (file, code) in sources() {
        for spelled in [
            "\"SANDBOX#",
            "\"LOG#",
            "\"BODY#",
            "\"ONCE#",
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
            let allowed = file == "shared/store/src/keys.rs" || !code.contains(spelled);
            assert!(allowed, "{file} spells {spelled}: keys are built in keys.rs");
        }
    }
}

/// A worker is a process of its own, and names what it reports itself.
#[test]
fn only_the_id_source_generates_ids_and_secrets() {
    for (file, code) in sources() {
        let allowed = file == "shared/app/src/ids.rs" || file.starts_with("worker/");
        for generated in ["now_v7", "new_v4", "rand::random"] {
            let found = !allowed && code.contains(generated);
            assert!(
                !found,
                "{file} calls {generated}: take ids from app::IdSource, secrets from app::ids::secret"
            );
        }
    }
}

#[test]
fn only_config_reads_the_environment_and_only_the_clock_the_time() {
    for (file, code) in sources() {
        let config = file.ends_with("config.rs");
        assert!(config || !code.contains("env::var"), "{file} reads the environment: that is for config.rs");
        let clock = file.ends_with("clock.rs");
        assert!(clock || !code.contains("SystemTime::now"), "{file} reads the time: that is for the clock");
    }
}
