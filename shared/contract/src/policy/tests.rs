use super::*;
use domain::{OrgId, ProjectId};

fn errors(text: &str) -> Vec<String> {
    SandboxPolicy::parse(text).expect_err(text).iter().map(ToString::to_string).collect()
}

fn parse(text: &str) -> SandboxPolicy {
    SandboxPolicy::parse(text).unwrap_or_else(|errors| panic!("{text}: {}", PolicyError::join(&errors)))
}

#[test]
fn every_error_names_its_field_and_what_is_expected() {
    for (text, field, expected) in [
        ("{", "", "is not valid JSON"),
        ("[]", "", "must be an object, not a list"),
        (r#"{"network": "none"}"#, "network", "must be an object, not a string"),
        (r#"{"netwrok": {}}"#, "netwrok", "did you mean `network`?"),
        (
            r#"{"network": {"allowed_domains": []}}"#,
            "network.allowed_domains",
            "did you mean `allowedDomains`?",
        ),
        (r#"{"network": {"colour": 1}}"#, "network.colour", "known here: access, allowedDomains"),
        (r#"{"denyRead": []}"#, "denyRead", "did you mean `filesystem.denyRead`?"),
        (r#"{"network": {"access": "open"}}"#, "network.access", "must be public, allowlist or none"),
        (r#"{"network": {"access": true}}"#, "network.access", "must be a string, not a boolean"),
        (r#"{"network": {"access": "allowlist"}}"#, "network.allowedDomains", "missing"),
        (
            r#"{"network": {"access": "public", "allowedDomains": ["a.example"]}}"#,
            "network.allowedDomains",
            "has no effect",
        ),
        (
            r#"{"network": {"access": "none", "allowedDomains": ["a.example"]}}"#,
            "network.access",
            "is `none`, but",
        ),
        (
            r#"{"network": {"allowedDomains": "a.example"}}"#,
            "network.allowedDomains",
            "must be a list of strings",
        ),
        (
            r#"{"network": {"allowedDomains": [7]}}"#,
            "network.allowedDomains[0]",
            "must be a string, not a number",
        ),
        (
            r#"{"network": {"allowedDomains": ["a.example", "https://b.example"]}}"#,
            "network.allowedDomains[1]",
            "name only its host",
        ),
        (r#"{"network": {"allowedDomains": ["*"]}}"#, "network.allowedDomains[0]", "set access to `public`"),
        (r#"{"network": {"allowedDomains": ["a b"]}}"#, "network.allowedDomains[0]", "is not a host"),
        (r#"{"network": {"allowedDomains": ["a.example:0"]}}"#, "network.allowedDomains[0]", "is not a host"),
        (
            r#"{"network": {"allowedDomains": ["set:all"]}}"#,
            "network.allowedDomains[0]",
            "known: set:model-apis",
        ),
        (
            r#"{"network": {"allowedDomains": ["localhost:1"]}}"#,
            "network.allowedDomains[0]",
            "allowedPrivateHosts",
        ),
        (
            r#"{"network": {"allowedDomains": ["10.0.0.7"]}}"#,
            "network.allowedDomains[0]",
            "allowedPrivateHosts",
        ),
        (
            r#"{"network": {"allowedDomains": ["100.64.0.1:5000"]}}"#,
            "network.allowedDomains[0]",
            "allowedPrivateHosts",
        ),
        (
            r#"{"network": {"allowedPrivateHosts": ["*.corp.example"]}}"#,
            "network.allowedPrivateHosts[0]",
            "a pattern cannot be private",
        ),
        (r#"{"filesystem": {"denyRead": ["src"]}}"#, "filesystem.denyRead[0]", "is in the agent's workspace"),
        (r#"{"filesystem": {"denyRead": ["~/.ssh"]}}"#, "filesystem.denyRead[0]", "is in the agent's home"),
        (r#"{"filesystem": {"denyRead": ["/"]}}"#, "filesystem.denyRead[0]", "/ cannot be hidden"),
        (r#"{"filesystem": {"allowRead": [""]}}"#, "filesystem.allowRead[0]", "must not be empty"),
        (r#"{"filesystem": {"allowRead": ["/srv/*"]}}"#, "filesystem.allowRead[0]", "is a pattern"),
        (r#"{"filesystem": {"allowRead": ["/srv/../etc"]}}"#, "filesystem.allowRead[0]", "contains `..`"),
        (r#"{"filesystem": {"allowRead": ["~root/x"]}}"#, "filesystem.allowRead[0]", "of another user"),
        (
            r#"{"filesystem": {"allowRead": ["/a:/b"]}}"#,
            "filesystem.allowRead[0]",
            "a character that is not allowed",
        ),
        (r#"{"filesystem": {"allowRead": ["/proc/1"]}}"#, "filesystem.allowRead[0]", "of the system (/proc)"),
        (r#"{"filesystem": {"allowRead": ["/"]}}"#, "filesystem.allowRead[0]", "of the system"),
        (r#"{"filesystem": {"allowRead": ["/home"]}}"#, "filesystem.allowRead[0]", "data of other users"),
        (r#"{"filesystem": {"allowRead": ["/var/lib/"]}}"#, "filesystem.allowRead[0]", "services (/var/lib)"),
        (
            r#"{"filesystem": {"allowWrite": ["/usr/local/bin"]}}"#,
            "filesystem.allowWrite[0]",
            "of the system (/usr)",
        ),
        (r#"{"filesystem": {"allowWrite": ["/"]}}"#, "filesystem.allowWrite[0]", "of the system"),
        (
            r#"{"filesystem": {"allowWrite": ["//home/."]}}"#,
            "filesystem.allowWrite[0]",
            "data of other users",
        ),
        (
            r#"{"filesystem": {"denyRead": ["/srv/a"], "allowWrite": ["/srv/a/b"]}}"#,
            "filesystem.allowWrite[0]",
            "is inside of /srv/a in denyRead",
        ),
        (
            r#"{"filesystem": {"denyRead": ["/srv/a/b"], "allowWrite": ["/srv/a"]}}"#,
            "filesystem.denyRead[0]",
            "is inside of /srv/a in allowWrite",
        ),
        (r#"{"repository": {"allowSettings": "yes"}}"#, "repository.allowSettings", "must be true or false"),
        (r#"{"limits": {"processes": 0}}"#, "limits.processes", "must be a whole number from 1 to"),
        (r#"{"limits": {"memoryMb": 1.5}}"#, "limits.memoryMb", "must be a whole number"),
        (r#"{"limits": {"memory": 1}}"#, "limits.memory", "did you mean `memoryMb`?"),
    ] {
        let found = errors(text);
        let named = |error: &&String| field.is_empty() || error.starts_with(&format!("{field}: "));
        let message = found.iter().find(named).unwrap_or_else(|| panic!("{field} is missing: {found:?}"));
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = r#"{"network": {"access": "x"}, "filesystem": {"denyRead": ["a", "/b/.."]}, "limit": {}}"#;
    assert_eq!(errors(text).len(), 4);
}

#[test]
fn policy_is_the_same_after_it_was_sent() {
    for text in [
        "{}",
        r#"{"network": {}}"#,
        r#"{"network": {"access": "none"}}"#,
        r#"{"network": {"allowedDomains": []}}"#,
        r#"{"network": {"access": "public", "allowedPrivateHosts": ["registry.corp.example:5000", "[fd00::1]"]}}"#,
        r#"{"network": {"allowedDomains": ["set:registries", "*.Example.com.", "a.example:8443"]}}"#,
        r#"{"filesystem": {"denyRead": ["/srv/a/./b/"], "allowRead": ["~", "/srv/a"], "allowWrite": ["out", "."]}}"#,
        r#"{"repository": {"allowSettings": true}, "limits": {"processes": 7, "memoryMb": 8, "fileMb": 9}}"#,
    ] {
        let policy = parse(text);
        assert_eq!(SandboxPolicy::parse(&policy.to_json()), Ok(policy), "{text}");
    }
}

#[test]
fn lists_of_hosts_select_the_allowlist() {
    let access = |text: &str| parse(text).network.map(|network| network.access);
    assert_eq!(access("{}"), None);
    assert_eq!(access(r#"{"network": {}}"#), Some(Access::Public));
    assert_eq!(access(r#"{"network": {"allowedDomains": []}}"#), Some(Access::Allowlist));
    assert_eq!(access(r#"{"network": {"allowedPrivateHosts": ["localhost:1"]}}"#), Some(Access::Public));
}

#[test]
fn suggested_sets_contain_only_public_hosts() {
    for (name, purpose, hosts) in SETS {
        assert_eq!(Host::set(name).unwrap().len(), hosts.len(), "{name} contains a text that is not a host");
        assert!(Host::set(name).unwrap().iter().all(|host| !host.is_private()), "{name}");
        assert!(!purpose.is_empty());
    }
    assert_eq!(Host::set("everything"), None);
}

#[test]
fn hosts_intersect_in_the_narrower_one() {
    for (one, another, both) in [
        ("a.example", "a.example", Some("a.example")),
        ("a.example", "b.example", None),
        ("a.example", "*.example", Some("a.example")),
        ("a.b.example", "*.example", Some("a.b.example")),
        ("example", "*.example", None),
        ("xexample", "*.example", None),
        ("*.b.example", "*.example", Some("*.b.example")),
        ("*.example", "*.example", Some("*.example")),
        ("a.example:443", "a.example", Some("a.example:443")),
        ("a.example:8443", "a.example", None),
        ("a.example:8443", "*.example:8443", Some("a.example:8443")),
        ("a.example:8443", "a.example:8444", None),
        ("10.0.0.7", "0xa.7", Some("10.0.0.7")),
        ("10.0.0.7", "*.7", None),
        ("[::1]:80", "[0:0::1]", Some("[::1]:80")),
    ] {
        let Ok(another) = Host::parse(another) else { continue };
        let one = Host::parse(one).unwrap();
        let shown = |host: Option<Host>| host.map(|host| host.to_string());
        assert_eq!(shown(one.intersection(&another)).as_deref(), both, "{one} and {another}");
        assert_eq!(shown(another.intersection(&one)).as_deref(), both, "{another} and {one}");
    }
}

#[test]
fn project_receives_its_policy_within_the_maximum() {
    let file = PolicyFile::parse(
        r#"{
            "maximum": {
                "network": {"allowedDomains": ["*.npmjs.org", "github.com"]},
                "filesystem": {"denyRead": ["/srv/all/keys"], "allowRead": ["/srv/all"]},
                "limits": {"memoryMb": 1000}
            },
            "default": {"network": {"access": "none"}},
            "projects": {
                "acme/web": {
                    "network": {"allowedDomains": ["registry.npmjs.org", "evil.example"]},
                    "filesystem": {
                        "allowRead": ["/srv/all/data", "/srv/all/keys/web"], "allowWrite": ["/srv/cache", "out"]
                    },
                    "repository": {"allowSettings": true},
                    "limits": {"memoryMb": 4000, "processes": 50}
                },
                "acme/*": {}
            }
        }"#,
    );
    let file = file.unwrap();
    let of = |org: &str, project: Option<&str>| {
        let project = project.map(|project| ProjectId::parse(project).unwrap());
        file.effective(&OrgId::parse(org).unwrap(), project.as_ref())
    };
    let web = of("acme", Some("web"));
    assert_eq!(web.source, Source::Project);
    let expected = parse(
        r#"{
            "network": {"allowedDomains": ["registry.npmjs.org"]},
            "filesystem": {"denyRead": ["/srv/all/keys"], "allowRead": ["/srv/all/data"], "allowWrite": ["out"]},
            "limits": {"processes": 50, "memoryMb": 1000}
        }"#,
    );
    assert_eq!(web.policy, expected);
    let narrowed = [
        "filesystem.allowRead",
        "filesystem.allowWrite",
        "filesystem.denyRead",
        "limits.memoryMb",
        "network.allowedDomains",
        "repository.allowSettings",
    ];
    assert_eq!(web.narrowed, narrowed);
    // Without a network section it would have all public hosts.
    let app = of("acme", Some("app"));
    assert_eq!(app.source, Source::Org);
    let hosts = app.policy.network.unwrap();
    assert_eq!((hosts.access, hosts.allowed_domains.len()), (Access::Allowlist, 2));
    let other = of("other", Some("web"));
    assert_eq!((other.source, other.policy.network.unwrap().access), (Source::Default, Access::None));
}

#[test]
fn file_without_a_maximum_leaves_policies_as_they_are() {
    let file =
        PolicyFile::parse(r#"{"projects": {"acme/web": {"repository": {"allowSettings": true}}}}"#).unwrap();
    let (org, project) = (OrgId::parse("acme").unwrap(), ProjectId::parse("web").unwrap());
    let web = file.effective(&org, Some(&project));
    assert!(web.policy.repository.allow_settings && web.narrowed.is_empty());
    let other = file.effective(&org, None);
    assert_eq!((other.policy, other.source), (SandboxPolicy::default(), Source::BuiltIn));
}

#[test]
fn errors_of_a_file_name_the_policy() {
    let text = r#"{
        "maximun": {},
        "network": {},
        "default": {"limits": {"processes": -1}},
        "projects": {"acme/web": {"filesystem": {"denyRead": ["x"]}}, "acme": {}, "acme/web/x": {}, "*/web": {}}
    }"#;
    let errors = PolicyFile::parse(text).unwrap_err();
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    let expected = [
        "maximun",
        "network",
        "default.limits.processes",
        "projects[\"*/web\"]",
        "projects[\"acme\"]",
        "projects[\"acme/web\"].filesystem.denyRead[0]",
        "projects[\"acme/web/x\"]",
    ];
    for field in expected {
        assert!(fields.contains(&field), "{field} is missing: {fields:?}");
    }
    assert_eq!(fields.len(), expected.len(), "{fields:?}");
}
