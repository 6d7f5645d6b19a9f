//! The command `sunaba policy check`, and the option `--policy`.

use crate::support::dev;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const GOOD: &str = r#"{
    "maximum": {"network": {"allowedDomains": ["*.npmjs.org", "github.com"]}, "limits": {"processes": 100}},
    "default": {"network": {"access": "none"}},
    "projects": {
        "acme/web": {
            "network": {"allowedDomains": ["registry.npmjs.org", "other.example"]},
            "filesystem": {"denyRead": ["/srv/keys"]}
        }
    }
}"#;

fn write(folder: &Path, text: &str) -> String {
    let file = folder.join("policy.json");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The exit code, standard output and standard error.
fn check(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(["policy", "check", &write(folder.path(), text)])
        .args(options)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn valid_file_prints_the_policy_of_each_project() {
    let (code, output, _) = check(GOOD, &[]);
    assert_eq!(code, 0, "{output}");
    let web = output.split("\n\n").find(|table| table.starts_with("acme/web: its own policy")).unwrap();
    let row = |table: &str, field: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(field)).unwrap();
        line.trim_start().strip_prefix(field).unwrap().trim().to_owned()
    };
    assert_eq!(row(web, "network.allowedDomains"), "registry.npmjs.org  (narrowed by the maximum)");
    assert_eq!(row(web, "filesystem.denyRead"), "/srv/keys");
    assert_eq!(row(web, "repository.allowSettings"), "false");
    assert_eq!(row(web, "limits.processes"), "100  (narrowed by the maximum)");
    let others =
        output.split("\n\n").find(|table| table.starts_with("all other tasks: the default")).unwrap();
    assert_eq!(row(others, "network.access"), "none");
}

#[test]
fn one_project_can_be_selected() {
    let (code, output, _) = check(GOOD, &["--project", "acme/web"]);
    assert!(
        code == 0 && output.starts_with("acme/web: its own policy") && !output.contains("other tasks"),
        "{output}"
    );
    let (code, output, _) = check(GOOD, &["--project", "other/web"]);
    assert!(code == 0 && output.starts_with("other/web: the default of the file"), "{output}");
    let (code, _, error) = check(GOOD, &["--project", "web"]);
    assert!(code == 1 && error.contains("--project must be <org>/<project>"), "{error}");
}

#[test]
fn json_output_has_the_effective_policies() {
    let (code, output, _) = check(GOOD, &["--json", "--project", "acme/web"]);
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &output["valid"]), (0, &Value::Bool(true)));
    let policy = &output["policies"][0];
    assert_eq!(policy["policy"]["network"]["allowedDomains"], serde_json::json!(["registry.npmjs.org"]));
    assert_eq!(policy["narrowed"], serde_json::json!(["limits.processes", "network.allowedDomains"]));
}

#[test]
fn every_error_is_printed_with_its_field() {
    let text = r#"{
        "maximum": {"netwrok": {}},
        "projects": {"acme/web": {"filesystem": {"allowWrite": ["/etc"]}, "limits": {"processes": 0}}}
    }"#;
    let (code, output, error) = check(text, &[]);
    assert_eq!((code, output.as_str()), (1, ""), "{error}");
    for expected in [
        "policy.json: maximum.netwrok: unknown field; did you mean `network`?",
        "policy.json: projects[\"acme/web\"].filesystem.allowWrite[0]: /etc: it would open a directory of the system",
        "policy.json: projects[\"acme/web\"].limits.processes: must be a whole number",
        "3 errors in ",
    ] {
        assert!(error.contains(expected), "{expected} is missing in:\n{error}");
    }
    let (code, output, _) = check(text, &["--json"]);
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &output["valid"]), (1, &Value::Bool(false)));
    assert_eq!(output["errors"][0]["field"], "maximum.netwrok");
    let (code, _, error) = check("{", &[]);
    assert!(code == 1 && error.contains("is not valid JSON"), "{error}");
}

#[tokio::test]
async fn plane_does_not_start_with_an_invalid_policy() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut options = dev(&data);
    options.policy = Some(write(folder.path(), r#"{"default": {"network": {"access": "open"}}}"#).into());
    let error = local::dev::start(&options).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("default.network.access: must be public, allowlist or none"), "{error}");
}
