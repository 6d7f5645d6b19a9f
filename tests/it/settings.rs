//! Settings of tasks and sandboxes have the same names on all hosts.

use app::orchestration::settings::{LIMITS, SANDBOXES, THRESHOLDS};
use edge::registry::Permission;
use kit::template::parse;
use lambda_host::config::variables;
use local::config::sandboxes::Sandboxes;
use std::collections::BTreeSet;

/// Settings of the local host only: another provider, and the Daytona key itself.
const ONLY_LOCAL: [&str; 3] = ["SUNABA_PROVIDER", "SUNABA_ISOLATION", "DAYTONA_API_KEY"];

/// Settings on AWS only: addresses of its parts and names of secrets.
const ONLY_ON_AWS: [&str; 5] = [
    "SUNABA_ORCHESTRATION_JOBS_URL",
    "SUNABA_PLANE",
    "SUNABA_WORKERS_SOCKET_URL",
    "SUNABA_DAYTONA_KEY_ID",
    "SUNABA_WORKER_VARIABLES_ID",
];

fn shared() -> BTreeSet<&'static str> {
    LIMITS.into_iter().chain(THRESHOLDS).chain(SANDBOXES).collect()
}

#[test]
fn hosts_read_the_same_settings_by_the_same_names() {
    let local: BTreeSet<&str> = Sandboxes::NAMES.iter().copied().collect();
    let of_orchestration = [Permission::OrchestrationJobs, Permission::Thresholds, Permission::Providers];
    let on_aws: BTreeSet<&str> = of_orchestration.iter().flat_map(|need| variables(*need)).copied().collect();
    let with =
        |own: &[&'static str]| shared().into_iter().chain(own.iter().copied()).collect::<BTreeSet<_>>();
    let advice = "add it to app::orchestration::settings and to both hosts' config";
    assert_eq!(local, with(&ONLY_LOCAL), "{advice}");
    assert_eq!(on_aws, with(&ONLY_ON_AWS), "{advice}");
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
