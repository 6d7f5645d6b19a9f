use super::*;
use domain::resources::{self, ResourceRequest};
use providers::PROVIDERS;

fn file(values: &[(&str, &str)]) -> Values {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn options_override_the_file_which_overrides_the_defaults() {
    let cases = [
        (None, &[][..], 4),
        (None, &[("sandbox_memory_gb", "6")][..], 6),
        (Some("2"), &[("sandbox_memory_gb", "6")][..], 2),
        (Some(""), &[("sandbox_memory_gb", "6")][..], 6),
    ];
    for (option, in_file, expected) in cases {
        let sandboxes = Sandboxes { sandbox_memory_gb: option.map(str::to_owned), ..Sandboxes::default() };
        let config = sandboxes.config(PROVIDERS, &file(in_file)).unwrap();
        let resolved = resources::resolve(&config.orchestration.resources).unwrap();
        assert_eq!(resolved.memory_gb, expected, "{option:?} over {in_file:?}");
    }
    let task = ResourceRequest { memory_gb: Some(1), ..ResourceRequest::default() };
    let config = Sandboxes::default().config(PROVIDERS, &file(&[("sandbox_memory_gb", "6")])).unwrap();
    let layers = [vec![task], config.orchestration.resources].concat();
    assert_eq!(resources::resolve(&layers).unwrap().memory_gb, 1, "a task overrides everything");
}

#[test]
fn defaults_apply_without_options() {
    let (config, defaults) =
        (Sandboxes::default().config(PROVIDERS, &Values::new()).unwrap(), Orchestration::default());
    assert_eq!(config.enabled, ["process"]);
    assert_eq!(config.orchestration.thresholds, defaults.thresholds);
    assert_eq!(config.orchestration.limits, defaults.limits);
    assert_eq!(config.orchestration.validation_secs, defaults.validation_secs);
    assert_eq!(config.orchestration.max_feedback_rounds, defaults.max_feedback_rounds);
    assert!(config.providers.is_empty() && config.agent.is_none());
}

#[test]
fn all_errors_are_reported_at_once() {
    let key = settings().find(|setting| setting.required).unwrap();
    let sandboxes = Sandboxes {
        provider: Some(format!("{}, cloud", PROVIDERS[0].name)),
        agent: Some("robot".into()),
        agents: Some("acp".into()),
        sandbox_memory_gb: Some("99".into()),
        sandbox_cpu: Some("many".into()),
        idle_threshold_minutes: Some("-1".into()),
        max_concurrent_tasks_per_org: Some("0".into()),
        ticket_human_review: Some("perhaps".into()),
        approval_timeout_seconds: Some("5".into()),
        callback_url: Some("plane.example".into()),
        isolation: Some("strict".into()),
        providers: ProviderOptions::of(key.variable, "a-planted-key"),
        ..Sandboxes::default()
    };
    let file = file(&[("sandbox_disk_gb", "11"), ("colour", "red")]);
    let errors = sandboxes.config(PROVIDERS, &file).unwrap_err();
    for name in [
        "SUNABA_PROVIDER",
        "AGENT: ",
        "SUNABA_AGENTS: ",
        "SANDBOX_MEMORY_GB",
        "SANDBOX_CPU",
        "SANDBOX_DISK_GB",
        "IDLE_THRESHOLD_MINUTES",
        "MAX_CONCURRENT_TASKS_PER_ORG",
        "TICKET_HUMAN_REVIEW",
        "APPROVAL_TIMEOUT_SECONDS",
        "SUNABA_CALLBACK_URL",
        "SUNABA_ISOLATION",
        "SUNABA_WORKER_SOURCE",
        "colour",
    ] {
        assert!(errors.iter().any(|error| error.contains(name)), "{name}: {errors:#?}");
    }
    assert!(!errors.concat().contains("a-planted-key"));
}

#[test]
fn worker_file_is_needed_only_with_a_remote_provider() {
    let key = settings().find(|setting| setting.required).unwrap();
    let missing = Sandboxes { worker_source: Some("/no/such/worker".into()), ..Sandboxes::default() };
    assert!(missing.config(PROVIDERS, &Values::new()).is_ok());
    let remote = Sandboxes {
        provider: Some(format!("process, {}", PROVIDERS[0].name)),
        providers: ProviderOptions::of(key.variable, "a-key"),
        ..missing
    };
    let errors = remote.config(PROVIDERS, &Values::new()).unwrap_err();
    assert_eq!(errors, ["SUNABA_WORKER_SOURCE: file not found: /no/such/worker"]);
}

/// A key in the environment does not enable its provider, and a remote default does not leave a local one enabled.
#[test]
fn only_named_providers_are_enabled() {
    let key = settings().find(|setting| setting.required).unwrap();
    let enabled = |provider: Option<&str>| {
        let sandboxes = Sandboxes {
            provider: provider.map(str::to_owned),
            worker_source: Some("image:/worker".into()),
            providers: ProviderOptions::of(key.variable, "a-key"),
            ..Sandboxes::default()
        };
        let config = sandboxes.config(PROVIDERS, &Values::new()).unwrap();
        let remote: Vec<&str> = config.providers.iter().map(|(kind, _)| kind.name).collect();
        (config.has_local_sandboxes(), remote, config.orchestration.default_provider)
    };
    let remote = PROVIDERS[0].name;
    assert_eq!(enabled(None), (true, vec![], "process".to_owned()));
    assert_eq!(enabled(Some(remote)), (false, vec![remote], remote.to_owned()));
    assert_eq!(enabled(Some(&format!("{remote}, process"))), (true, vec![remote], remote.to_owned()));
}

#[test]
fn fractional_times_are_rounded_up_to_seconds() {
    let idle_secs = |minutes: &str| {
        let sandboxes = Sandboxes { idle_threshold_minutes: Some(minutes.into()), ..Sandboxes::default() };
        sandboxes.config(PROVIDERS, &Values::new()).map(|config| config.orchestration.thresholds.idle_secs)
    };
    assert_eq!(idle_secs("0.05").unwrap(), 3);
    assert_eq!(idle_secs("10").unwrap(), 600);
    assert!(idle_secs("0").is_err() && idle_secs("NaN").is_err() && idle_secs("inf").is_err());
}
