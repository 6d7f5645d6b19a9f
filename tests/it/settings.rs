//! Settings of tasks and sandboxes have the same names on all hosts.

use crate::support::dev;
use app::orchestration::settings::{LIMITS, SANDBOXES, THRESHOLDS};
use contract::AgentDefinition;
use edge::registry::Permission;
use kit::template::parse;
use lambda_host::config::variables;
use local::config::sandboxes::Sandboxes;
use providers::PROVIDERS;
use serde_json::json;
use std::collections::BTreeSet;
use tempfile::TempDir;

/// Settings of the local host only: those of local sandboxes.
const ONLY_LOCAL: [&str; 1] = ["SUNABA_ISOLATION"];

/// Settings on AWS only: addresses of its parts, and names of secrets.
const ONLY_ON_AWS: [&str; 4] = [
    "SUNABA_ORCHESTRATION_JOBS_URL",
    "SUNABA_PLANE",
    "SUNABA_WORKERS_SOCKET_URL",
    "SUNABA_WORKER_VARIABLES_ID",
];

fn shared() -> BTreeSet<&'static str> {
    LIMITS.into_iter().chain(THRESHOLDS).chain(SANDBOXES).collect()
}

#[test]
fn hosts_read_the_same_settings_by_the_same_names() {
    let local: BTreeSet<&str> = Sandboxes::names().into_iter().collect();
    let of_orchestration = [Permission::OrchestrationJobs, Permission::Thresholds, Permission::Providers];
    let on_aws: BTreeSet<&str> = of_orchestration.iter().flat_map(|need| variables(*need)).copied().collect();
    let with =
        |own: &[&'static str]| shared().into_iter().chain(own.iter().copied()).collect::<BTreeSet<_>>();
    let advice = "add it to app::orchestration::settings and to both hosts' config";
    let settings = || PROVIDERS.iter().flat_map(|kind| kind.settings);
    let of_providers: Vec<&str> = settings().map(|setting| setting.variable).collect();
    // Secrets are in Secrets Manager, and the variable has the name.
    let with_names: Vec<&str> =
        settings().map(|setting| setting.secret.map_or(setting.variable, |secret| secret.variable)).collect();
    assert_eq!(local, with(&[&ONLY_LOCAL[..], &of_providers].concat()), "{advice}");
    assert_eq!(on_aws, with(&[&ONLY_ON_AWS[..], &with_names].concat()), "{advice}");
}

#[test]
fn every_shared_setting_is_a_template_parameter() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    // The stack knows its own URL.
    for name in shared().into_iter().filter(|name| *name != "SUNABA_CALLBACK_URL") {
        let words = name.strip_prefix("SUNABA_").unwrap_or(name).split('_');
        let parameter: String =
            words.map(|word| word[..1].to_owned() + &word[1..].to_ascii_lowercase()).collect();
        assert!(template["Parameters"][&parameter].is_object(), "{name} needs a parameter {parameter}");
    }
}

/// A provider that is set up could run a task on the host of a plane that is set to remote sandboxes.
#[test]
fn plane_sets_up_no_provider_but_those_that_are_enabled() {
    let remote = "daytona_api_key: planted\nworker_source: /bin/sh\n";
    for (file, expected) in [
        (String::new(), &["process"][..]),
        (format!("provider: daytona\n{remote}"), &["daytona"]),
        (format!("provider: daytona, process\n{remote}"), &["daytona", "process"]),
    ] {
        let data = TempDir::new().unwrap();
        let plane = data.path().join("plane");
        std::fs::create_dir(&plane).unwrap();
        std::fs::write(plane.join("sunaba.yaml"), &file).unwrap();
        let options = dev(&data);
        let config = options.check().unwrap();
        let setup = local::sandboxes::setup(&options, config, "127.0.0.1:18000".parse().unwrap()).unwrap();
        let names: Vec<&str> = setup.providers.all().map(|provider| provider.name()).collect();
        assert_eq!(names, expected, "{file}");
    }
}

/// A typo is found when the stack is deployed, not when its functions start.
#[test]
fn template_accepts_only_providers_that_exist_and_agents_of_a_known_kind() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    let parameters = &template["Parameters"];
    let kinds = AgentDefinition::kinds().collect::<Vec<_>>().join("|");
    let entry = format!("([A-Za-z0-9][A-Za-z0-9._:-]* *= *)?({kinds})(:[^,]*[^, ][^,]*)?");
    // Lambda's environment has 4 KB for all variables.
    assert_eq!(parameters["Agents"]["MaxLength"], json!(1_024));
    let providers = PROVIDERS.iter().map(|kind| kind.name).collect::<Vec<_>>().join("|");
    assert_eq!(parameters["Agent"]["AllowedPattern"], json!(contract::agent::NAME_PATTERN));
    assert_eq!(parameters["Agents"]["AllowedPattern"], json!(format!("^{entry}( *, *{entry})*$")));
    let providers = format!("^({providers})( *, *({providers}))*$");
    assert_eq!(parameters["Provider"]["AllowedPattern"], json!(providers));
}

/// Provider labels are short, and two planes that share a provider account must not claim each other's sandboxes.
#[test]
fn plane_name_on_aws_is_account_region_and_stage() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    for function in ["SandboxesDispatchFunction", "SandboxesSweepProvidersFunction"] {
        let value =
            &template["Resources"][function]["Properties"]["Environment"]["Variables"]["SUNABA_PLANE"];
        assert_eq!(value["Fn::Sub"], "${AWS::AccountId}-${AWS::Region}-${Stage}", "{function}");
    }
    let longest_stage = "x".repeat(16);
    let pattern = template["Parameters"]["Stage"]["AllowedPattern"].as_str().unwrap();
    assert!(pattern.ends_with("{1,15}"), "a stage name has at most 16 characters: {pattern}");
    let longest = format!("123456789012-ap-northeast-1-{longest_stage}");
    assert!(longest.len() <= 63, "{} characters exceed the limit of a label", longest.len());
}
