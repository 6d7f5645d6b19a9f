//! The lines of ARCHITECTURE.md: what may depend on what, and who may spell what.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Names of the dependencies that a package is built with.
fn dependencies(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|found| found["name"] == package);
    let found = found.unwrap_or_else(|| panic!("no package {package}"));
    let dependencies = found["dependencies"].as_array().unwrap().iter();
    dependencies
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn dependencies_run_one_way() {
    let order = ["domain", "contract", "store", "app", "edge", "local"];
    for (index, package) in order.iter().enumerate() {
        let used = dependencies(package);
        for later in &order[index + 1..] {
            assert!(!used.contains(*later), "{package} must not depend on {later}");
        }
    }
    let client = dependencies("client");
    for inner in ["store", "app", "edge", "local"] {
        assert!(!client.contains(inner), "the client sees the contract only, not {inner}");
    }
}

#[test]
fn each_layer_names_only_its_own_platform() {
    for package in ["domain", "contract", "store", "app", "edge", "client"] {
        for name in dependencies(package) {
            let aws = name.starts_with("aws-");
            // The stream's images are attribute values.
            let allowed = package == "store" || (package == "edge" && name == "aws-sdk-dynamodb");
            assert!(!aws || allowed, "{package} must not depend on {name}: aws crates belong to store");
            let web = ["axum", "hyper", "tower"].contains(&name.as_str());
            assert!(!web, "{package} must not depend on {name}: a web framework belongs to local");
            assert!(!name.starts_with("lambda"), "{package} must not depend on {name}");
        }
    }
    for name in dependencies("domain") {
        let pure = ["serde", "serde_json", "thiserror", "time"].contains(&name.as_str());
        assert!(pure, "domain is pure: {name} needs a decision record and a line here");
    }
}

/// Every Rust file of the libraries and hosts, tests left out.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("shared"), root().join("local/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.push((path.strip_prefix(root()).unwrap().display().to_string(), code));
            }
        }
    }
    assert!(found.len() > 30, "the sources are not where this test looks");
    found
}

#[test]
fn only_keys_rs_spells_a_key() {
    for (file, code) in sources() {
        for spelled in
            ["\"SANDBOX#", "\"LOG#", "\"BODY#", "\"ONCE#", "\"CONNECTION#", "\"TOPIC#", "\"REALM#", "\"ORG#"]
        {
            let allowed = file == "shared/store/src/keys.rs" || !code.contains(spelled);
            assert!(allowed, "{file} spells {spelled}: keys are built in keys.rs");
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
