//! What can be set about tasks and their sandboxes has one name, wherever the plane runs.

use app::orchestration::settings::{LIMITS, SANDBOXES, THRESHOLDS};
use edge::registry::Permission;
use kit::template::parse;
use lambda_host::config::variables;
use local::config::sandboxes::Sandboxes;
use std::collections::BTreeSet;

/// What only a plane on somebody's own machine can be told: it has another provider, and Daytona's key itself.
const ONLY_HERE: [&str; 3] = ["SUNABA_PROVIDER", "SUNABA_ISOLATION", "DAYTONA_API_KEY"];

/// What only a plane on AWS has to be told: where its parts are, and the names of secrets.
const ONLY_ON_AWS: [&str; 5] = [
    "SUNABA_WORK_URL",
    "SUNABA_PLANE",
    "SUNABA_WORKERS_SOCKET_URL",
    "SUNABA_DAYTONA_KEY_ID",
    "SUNABA_WORKER_VARIABLES_ID",
];

fn shared() -> BTreeSet<&'static str> {
    LIMITS.into_iter().chain(THRESHOLDS).chain(SANDBOXES).collect()
}

#[test]
fn the_hosts_are_told_the_same_by_the_same_names() {
    let here: BTreeSet<&str> = Sandboxes::NAMES.iter().copied().collect();
    let of_work = [Permission::Work, Permission::Thresholds, Permission::Providers];
    let on_aws: BTreeSet<&str> = of_work.iter().flat_map(|need| variables(*need)).copied().collect();
    let with =
        |own: &[&'static str]| shared().into_iter().chain(own.iter().copied()).collect::<BTreeSet<_>>();
    let where_to = "add it to app::orchestration::settings and to both hosts' config";
    assert_eq!(here, with(&ONLY_HERE), "{where_to}");
    assert_eq!(on_aws, with(&ONLY_ON_AWS), "{where_to}");
}

#[test]
fn what_is_the_same_for_both_hosts_is_a_parameter_of_its_name_on_aws() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    // Where the plane is, a stack knows itself.
    for name in shared().into_iter().filter(|name| *name != "SUNABA_CALLBACK_URL") {
        let words = name.strip_prefix("SUNABA_").unwrap_or(name).split('_');
        let parameter: String =
            words.map(|word| word[..1].to_owned() + &word[1..].to_ascii_lowercase()).collect();
        assert!(template["Parameters"][&parameter].is_object(), "{name} needs a parameter {parameter}");
    }
}

/// A provider's labels are short, and two planes that share an account there must not take each other's sandboxes for
/// their own.
#[test]
fn a_plane_on_aws_is_called_by_its_account_region_and_stage() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    for function in ["SandboxesDispatchFunction", "SandboxesCompareFunction"] {
        let told = &template["Resources"][function]["Properties"]["Environment"]["Variables"]["SUNABA_PLANE"];
        assert_eq!(told["Fn::Sub"], "${AWS::AccountId}-${AWS::Region}-${Stage}", "{function}");
    }
    let longest_stage = "x".repeat(16);
    let pattern = template["Parameters"]["Stage"]["AllowedPattern"].as_str().unwrap();
    assert!(pattern.ends_with("{1,15}"), "a stage has 16 characters at most: {pattern}");
    let longest = format!("123456789012-ap-northeast-1-{longest_stage}");
    assert!(longest.len() <= 63, "{} characters are more than labels take", longest.len());
}
