//! The upper bound of a policy, as the worker enforces it, and what a policy must not open.

use crate::agents::AGENTS;
use crate::config::reader::network::network_policy;
use crate::config::{Config, Problem};
use contract::policy::{
    Access, FilesystemRules, Host, LimitRules, NetworkRules, PolicyPath, RepositoryRules,
};
use contract::policy::{Root, SandboxPolicy};
use egress::policy::Target;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::symlink;
use std::path::Path;

fn hosts(pool: &'static [&'static str]) -> impl Strategy<Value = Vec<Host>> {
    vec(select(pool).prop_map(|text| Host::parse(text).unwrap()), 0..4)
}

fn paths(pool: &'static [&'static str]) -> impl Strategy<Value = Vec<PolicyPath>> {
    vec(select(pool).prop_map(|text| PolicyPath::parse(text).unwrap()), 0..3)
}

const DOMAINS: &[&str] = &[
    "a.example",
    "*.example",
    "*.b.example",
    "c.b.example",
    "a.example:8443",
    "*.example:443",
    "1.1.1.1",
    "10.0.0.7",
];
const PRIVATE: &[&str] =
    &["a.example", "c.b.example", "a.example:8443", "localhost:80", "10.0.0.7", "10.0.0.7:8443"];
const TARGETS: &[&str] =
    &["a.example", "c.b.example", "b.example", "other.org", "localhost", "1.1.1.1", "10.0.0.7"];
const PATHS: &[&str] = &["/data", "/data/a", "/data/a/b", "/data/ab", "/mnt/x", "~/x", "out"];

fn policies() -> impl Strategy<Value = SandboxPolicy> {
    let network = (select(Access::ALL.to_vec()), hosts(DOMAINS), hosts(PRIVATE)).prop_map(
        |(access, allowed_domains, allowed_private_hosts)| NetworkRules {
            access,
            allowed_domains,
            allowed_private_hosts,
        },
    );
    let filesystem =
        (paths(&PATHS[..5]), paths(PATHS), paths(PATHS)).prop_map(|(deny_read, allow_read, allow_write)| {
            FilesystemRules { deny_read, allow_read, allow_write }
        });
    let limit = || option::of(1_u64..4);
    let limits = (limit(), limit(), limit()).prop_map(|(processes, memory_mb, file_mb)| LimitRules {
        processes,
        memory_mb,
        file_mb,
    });
    (option::of(network), filesystem, any::<bool>(), limits).prop_map(
        |(network, filesystem, allow_settings, limits)| SandboxPolicy {
            network,
            filesystem,
            repository: RepositoryRules { allow_settings },
            limits,
        },
    )
}

/// What the proxy decides.
fn connects(policy: &SandboxPolicy, host: &str, port: u16, address: IpAddr) -> bool {
    let policy = network_policy(&policy.network.clone().unwrap_or_default()).unwrap();
    let target = Target::parse(host, port).unwrap();
    policy.check(&target).and_then(|addresses| addresses.check([target.address().unwrap_or(address)])).is_ok()
}

fn is_in(paths: &[PolicyPath], path: &PolicyPath) -> bool {
    paths.iter().any(|parent| parent.contains(path))
}

fn reads(policy: &SandboxPolicy, path: &PolicyPath) -> bool {
    let rules = &policy.filesystem;
    let is_allowed = is_in(&rules.allow_read, path) || is_in(&rules.allow_write, path);
    path.root != Root::Absolute || (is_allowed && !is_in(&rules.deny_read, path))
}

fn writes(policy: &SandboxPolicy, path: &PolicyPath) -> bool {
    let rules = &policy.filesystem;
    path.root != Root::Absolute || (is_in(&rules.allow_write, path) && !is_in(&rules.deny_read, path))
}

proptest! {
    #[test]
    fn agent_connects_where_its_policy_and_the_maximum_allow_it(
        policy in policies(),
        maximum in policies(),
        host in select(TARGETS),
        port in select(vec![80_u16, 443, 8443]),
        address in select(vec!["1.1.1.1", "10.0.0.7", "127.0.0.1", "169.254.169.254"]),
    ) {
        // By definition.
        let address = if host == "localhost" { "127.0.0.1" } else { address }.parse().unwrap();
        let allows = |policy: &SandboxPolicy| connects(policy, host, port, address);
        prop_assert_eq!(allows(&policy.restrict(&maximum)), allows(&policy) && allows(&maximum));
    }

    #[test]
    fn restricted_policy_opens_no_path_that_the_maximum_denies(
        policy in policies(),
        maximum in policies(),
        path in select(PATHS),
    ) {
        let (restricted, path) = (policy.restrict(&maximum), PolicyPath::parse(path).unwrap());
        prop_assert!(!reads(&restricted, &path) || (reads(&policy, &path) && reads(&maximum, &path)));
        prop_assert!(!writes(&restricted, &path) || (writes(&policy, &path) && writes(&maximum, &path)));
        // Neither by what is above it: a writable directory is writable as a whole.
        let rules = &restricted.filesystem;
        for denied in maximum.filesystem.deny_read.iter().chain(&policy.filesystem.deny_read) {
            prop_assert!(is_in(&rules.deny_read, denied));
            prop_assert!(!rules.allow_write.iter().any(|path| path.contains(denied) || denied.contains(path)));
        }
    }

    #[test]
    fn restricted_policy_exceeds_no_limit_and_applies_no_settings_that_the_maximum_forbids(
        policy in policies(),
        maximum in policies(),
    ) {
        let restricted = policy.restrict(&maximum);
        let limits = |policy: &SandboxPolicy| [policy.limits.processes, policy.limits.memory_mb, policy.limits.file_mb];
        // What the maximum does not mention has the worker's default.
        let defaults = confine::Limits::default();
        let defaults = [Some(defaults.processes), defaults.memory_bytes, Some(defaults.file_bytes >> 20)];
        let with_defaults = |policy: &SandboxPolicy| -> Vec<Option<u64>> {
            limits(policy).into_iter().zip(defaults).map(|(limit, default)| limit.or(default)).collect()
        };
        let bounds = with_defaults(&maximum);
        for ((own, bound), result) in limits(&policy).into_iter().zip(bounds).zip(with_defaults(&restricted)) {
            // A policy that mentions no limit has that of the maximum, which may be above the default.
            if own.is_some() {
                prop_assert_eq!(result, own.into_iter().chain(bound).min());
            }
            prop_assert!(bound.is_none_or(|bound| result.is_some_and(|result| result <= bound)));
        }
        let expected = policy.repository.allow_settings && maximum.repository.allow_settings;
        prop_assert_eq!(restricted.repository.allow_settings, expected);
    }

    #[test]
    fn restricted_policy_is_accepted_by_its_worker(policy in policies(), maximum in policies()) {
        let restricted = policy.restrict(&maximum);
        prop_assert_eq!(SandboxPolicy::parse(&restricted.to_json()), Ok(restricted));
    }

    #[test]
    fn restricting_twice_changes_nothing(policy in policies(), maximum in policies()) {
        let once = policy.restrict(&maximum);
        let (allowed, twice) = (once.network.clone().unwrap(), once.restrict(&maximum));
        prop_assert_eq!(twice.network.unwrap().access, allowed.access);
        prop_assert_eq!(&twice.filesystem, &once.filesystem);
        prop_assert_eq!(twice.limits, once.limits);
    }
}

fn read(variables: &[(&str, &str)]) -> (Option<Config>, Vec<Problem>) {
    let own =
        [("SANDBOX_ID", "s"), ("SANDBOX_TOKEN", "t"), ("HOME", "/h"), ("STATE_DIR", "/s"), ("CWD", "/w")];
    let all = own.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(&all.collect(), AGENTS)
}

fn errors(variables: &[(&str, &str)]) -> String {
    let (config, problems) = read(variables);
    assert!(config.is_none(), "{variables:?} must not start a worker");
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn policy_becomes_directories_limits_and_the_network() {
    let policy = r#"{
        "network": {"allowedDomains": ["a.example"], "allowedPrivateHosts": ["localhost:4873"]},
        "filesystem": {"allowRead": ["/data/in", "src"], "denyRead": ["/usr/share"], "allowWrite": ["/data/out", "~/x"]},
        "limits": {"processes": 7, "memoryMb": 8, "fileMb": 9}
    }"#;
    let config = read(&[("POLICY", policy)]).0.unwrap();
    let confined = config.confinement.policy;
    assert!(confined.readable.contains(&"/data/in".into()), "{confined:?}");
    assert!(confined.writable.contains(&"/data/out".into()), "{confined:?}");
    assert!(confined.hidden.contains(&"/usr/share".into()), "{confined:?}");
    assert!(!confined.writable.iter().any(|path| path.ends_with("x")), "{confined:?}");
    let limits = confined.limits;
    assert_eq!((limits.processes, limits.memory_bytes, limits.file_bytes), (7, Some(8 << 20), 9 << 20));
    assert_eq!(config.network.unwrap().to_string(), "a.example, localhost:4873");
}

#[test]
fn invalid_policy_stops_the_worker() {
    for policy in ["{", "[]", r#"{"netwrok": {}}"#, r#"{"filesystem": {"allowWrite": ["/etc"]}}"#] {
        assert!(errors(&[("POLICY", policy)]).contains("POLICY: "), "{policy}");
    }
}

#[test]
fn network_has_one_source() {
    let policy = r#"{"network": {"access": "public"}}"#;
    assert!(errors(&[("POLICY", policy), ("NETWORK", "none")]).contains("NETWORK: set, but POLICY"));
    let config = read(&[("POLICY", "{}"), ("NETWORK", "none")]).0.unwrap();
    assert_eq!(config.network.unwrap().to_string(), "none");
}

#[test]
fn policy_never_opens_state_secrets_or_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (state, plane) = (folder.join("state"), folder.join("plane"));
    for directory in [&state, &plane] {
        fs::create_dir(directory).unwrap();
    }
    symlink("/etc", folder.join("to-etc")).unwrap();
    symlink(&state, folder.join("to-state")).unwrap();
    symlink("/proc", folder.join("to-proc")).unwrap();
    symlink("/var", folder.join("to-var")).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    let text = |path: &Path| path.display().to_string();
    for (field, path, why) in [
        ("allowWrite", text(&state), "the state of the worker"),
        ("allowWrite", text(&state.join("outbox")), "the state of the worker"),
        ("allowWrite", text(&folder), "the state of the worker"),
        ("allowWrite", text(&plane.join("sandboxes")), "the state of the worker or of the plane"),
        ("allowWrite", text(&folder.join("to-etc/new")), "a directory of the system (/etc)"),
        ("allowWrite", text(&folder.join("to-state")), "the state of the worker"),
        ("allowWrite", text(&folder.join("file")), "not a directory"),
        ("allowWrite", "/h".to_owned(), "the home directory of the worker's user"),
        ("allowRead", text(&state.join("outbox")), "the state of the worker"),
        ("allowRead", text(&folder.join("to-state/outbox")), "the state of the worker"),
        ("allowRead", text(&folder.join("to-proc/1")), "a directory of the system (/proc)"),
        ("allowRead", text(&folder.join("to-var")), "the data of other users and services (/var)"),
    ] {
        let policy = serde_json::json!({ "filesystem": { field: [path] } }).to_string();
        let variables =
            [("POLICY", policy.as_str()), ("STATE_DIR", &text(&state)), ("ISOLATION_HIDDEN", &text(&plane))];
        let errors = errors(&variables);
        assert!(
            errors.contains(&format!("filesystem.{field}: {path}: ")) && errors.contains(why),
            "{errors}"
        );
    }
}

/// Otherwise an agent that may write to a directory decides what another policy opens within it.
#[test]
fn path_through_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (shared, alice) = (folder.join("shared"), folder.join("alice"));
    for directory in [&shared, &alice, &alice.join("in"), &shared.join("own")] {
        fs::create_dir(directory).unwrap();
    }
    symlink(&alice, shared.join("b")).unwrap();
    symlink(alice.join("missing"), shared.join("dangling")).unwrap();
    let with = |field: &str, path: &Path| serde_json::json!({ "filesystem": { field: [path] } }).to_string();
    for field in ["allowRead", "allowWrite", "denyRead"] {
        for path in ["b", "b/in", "b/new", "dangling", "dangling/new"].map(|path| shared.join(path)) {
            let errors = errors(&[("POLICY", &with(field, &path))]);
            let expected = format!("filesystem.{field}: {}: ", path.display());
            assert!(errors.contains(&expected) && errors.contains("write the real path"), "{errors}");
        }
        for path in ["own", "own/new"].map(|path| shared.join(path)) {
            assert!(read(&[("POLICY", &with(field, &path))]).0.is_some(), "{field}: {}", path.display());
        }
    }
}

#[test]
fn link_in_the_root_is_followed() {
    let policy = r#"{"filesystem": {"allowRead": ["/bin/own/data"], "denyRead": ["/bin/own/keys"]}}"#;
    let confined = read(&[("POLICY", policy)]).0.unwrap().confinement.policy;
    let bin = Path::new("/bin").canonicalize().unwrap();
    assert!(confined.readable.contains(&bin.join("own/data")), "{confined:?}");
    for path in ["/bin/own/keys".into(), bin.join("own/keys")] {
        assert!(confined.hidden.contains(&path), "{confined:?}");
    }
}

#[test]
fn directories_that_are_not_enforced_are_reported() {
    let policy = ("POLICY", r#"{"filesystem": {"denyRead": ["/usr/share"]}}"#);
    let (config, problems) = read(&[policy, ("ISOLATION", "none")]);
    assert!(
        problems.iter().any(|problem| problem.variable == "POLICY" && problem.is_warning),
        "{problems:?}"
    );
    let confinement = config.unwrap().confinement;
    let unconfined = crate::confinement::unconfined();
    assert!(confinement.not_covered(&unconfined).iter().any(|text| text.contains("policy")));
    let (config, problems) = read(&[policy]);
    assert!(!problems.iter().any(|problem| problem.variable == "POLICY"), "{problems:?}");
    assert!(config.unwrap().confinement.setting == confine::Setting::Auto);
}

#[test]
fn setting_sources_of_the_repository_need_the_policy() {
    let warned = |variables: &[(&str, &str)]| {
        read(variables).1.iter().any(|problem| problem.variable == "SETTING_SOURCES" && problem.is_warning)
    };
    let allows = ("POLICY", r#"{"repository": {"allowSettings": true}}"#);
    assert!(warned(&[("SETTING_SOURCES", "user,project")]));
    assert!(!warned(&[("SETTING_SOURCES", "user,project"), allows]));
    assert!(!warned(&[("SETTING_SOURCES", "user")]));
}

/// The first and last address of every IPv4 network with up to 10 bits, and of some smaller ones, as the ranges have.
fn networks() -> impl Strategy<Value = (u32, u32)> {
    let of_registry = [
        "100.100.100.200",
        "168.63.129.16",
        "169.254.0.0",
        "172.16.0.0",
        "192.0.0.0",
        "192.0.2.0",
        "192.88.99.0",
        "192.168.0.0",
        "198.18.0.0",
        "198.51.100.0",
        "203.0.113.0",
    ];
    let named = of_registry.map(|text| text.parse::<Ipv4Addr>().unwrap().to_bits());
    let first = prop_oneof![select(named.to_vec()), any::<u32>()];
    (first, 0..=32_u32).prop_map(|(first, length)| {
        let hosts = u32::MAX.checked_shr(length).unwrap_or_default();
        (first & !hosts, first | hosts)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Otherwise a policy lists a host that its worker never reaches, or refuses one that it would.
    #[test]
    fn policies_and_the_proxy_agree_which_addresses_are_public(
        (first, last) in networks(), ipv6: u128, prefix in select(vec![0x2001_u128, 0x2002, 0x64, 0xfd00, 0x3fff])
    ) {
        let v4 = [first, last, first.wrapping_sub(1), last.wrapping_add(1)].map(Ipv4Addr::from_bits);
        let v6 = [ipv6, (ipv6 >> 16) | (prefix << 112), (ipv6 >> 32) | (prefix << 112) | (0xff9b << 96)];
        let v6 = v6.map(Ipv6Addr::from_bits);
        let translated = Ipv6Addr::from_bits((0x64_ff9b_u128 << 96) | u128::from(first));
        let mapped = v4[0].to_ipv6_mapped();
        let texts = v4.iter().map(ToString::to_string);
        let texts = texts.chain(v6.iter().chain([&translated, &mapped]).map(|address| format!("[{address}]")));
        let addresses = v4.map(IpAddr::from).into_iter().chain(v6.map(IpAddr::from));
        let addresses = addresses.chain([translated.into(), mapped.into()]);
        for (address, text) in addresses.zip(texts) {
            let host = Host::parse(&text).unwrap();
            prop_assert_eq!(!host.is_private(), egress::policy::is_public(address), "{}", address);
        }
    }
}
