//! Reads a policy, and reports all errors in it.

use super::fields::{Fields, error};
use super::path::ForbiddenDirectory;
use super::{
    Access, FilesystemRules, Host, LimitRules, NetworkRules, PolicyError, PolicyPath, RepositoryRules,
};
use super::{Root, SETS, SandboxPolicy};
use serde_json::Value;

/// More is a mistake: a unit, for example.
const MAX_PROCESSES: u64 = 1 << 20;
const MAX_MB: u64 = 1 << 24;

pub(super) const SECTIONS: [&str; 4] = ["network", "filesystem", "repository", "limits"];

pub(super) fn json(text: &str) -> Result<Value, Vec<PolicyError>> {
    serde_json::from_str(text).map_err(|why| vec![error("", format!("is not valid JSON: {why}"))])
}

/// Reads the policy at this path of its file.
pub(super) fn policy(value: &Value, path: &str, errors: &mut Vec<PolicyError>) -> SandboxPolicy {
    let sections = Fields::of(value, path, &SECTIONS, errors);
    let section = |name| sections.get(name).map(|value| (value, sections.path_of(name)));
    let [network_at, filesystem_at, repository_at, limits_at] = SECTIONS.map(section);
    SandboxPolicy {
        network: network_at.map(|(value, path)| network(value, &path, errors)),
        filesystem: filesystem_at.map(|(value, path)| filesystem(value, &path, errors)).unwrap_or_default(),
        repository: repository_at.map(|(value, path)| repository(value, &path, errors)).unwrap_or_default(),
        limits: limits_at.map(|(value, path)| limits(value, &path, errors)).unwrap_or_default(),
    }
}

fn network(value: &Value, path: &str, errors: &mut Vec<PolicyError>) -> NetworkRules {
    let mut fields = Fields::of(value, path, &["access", "allowedDomains", "allowedPrivateHosts"], errors);
    let given = fields.text("access");
    let domains = fields.texts("allowedDomains");
    let private = fields.texts("allowedPrivateHosts");
    let access = given.and_then(|text| Access::ALL.into_iter().find(|access| access.as_str() == text));
    if let (Some(given), None) = (given, access) {
        fields.error("access", format!("must be public, allowlist or none, not {given:?}"));
    }
    let has_lists = domains.is_some() || private.is_some();
    // Without a valid access, the stricter one: the errors reject the policy anyway.
    let access = access.unwrap_or(if given.is_some() {
        Access::None
    } else if domains.is_some() {
        Access::Allowlist
    } else {
        Access::Public
    });
    match access {
        Access::Public if domains.is_some() => {
            fields.error("allowedDomains", "has no effect with access `public`; set access to `allowlist`");
        }
        Access::None if has_lists && given == Some("none") => {
            fields.error(
                "access",
                "is `none`, but hosts are listed; set it to `allowlist`, or remove the lists",
            );
        }
        Access::Allowlist if !has_lists => {
            fields.error("allowedDomains", "missing; list hosts, or set access to `none`");
        }
        _ => {}
    }
    let mut allowed_domains = Vec::new();
    for (name, text) in domains.into_iter().flatten() {
        match hosts(text) {
            Ok(hosts) => allowed_domains.extend(hosts),
            Err(why) => fields.error(&name, why),
        }
    }
    let mut allowed_private_hosts = Vec::new();
    for (name, text) in private.into_iter().flatten() {
        match Host::parse(text) {
            Ok(host) if host.is_pattern() => {
                fields.error(
                    &name,
                    "a pattern cannot be private: the owner of a name decides about its addresses",
                );
            }
            Ok(host) => allowed_private_hosts.push(host),
            Err(why) => fields.error(&name, why.to_string()),
        }
    }
    NetworkRules { access, allowed_domains, allowed_private_hosts }
}

/// The hosts of an entry in `allowedDomains`.
fn hosts(text: &str) -> Result<Vec<Host>, String> {
    if let Some(set) = text.strip_prefix("set:") {
        let known = || SETS.map(|(name, ..)| format!("set:{name}")).join(", ");
        return Host::set(set).ok_or_else(|| format!("{text:?} is not a set; known: {}", known()));
    }
    let host = Host::parse(text).map_err(|why| why.to_string())?;
    if host.is_private() {
        return Err(format!("{text:?} is not public; list it in allowedPrivateHosts"));
    }
    Ok(vec![host])
}

fn filesystem(value: &Value, path: &str, errors: &mut Vec<PolicyError>) -> FilesystemRules {
    let mut fields = Fields::of(value, path, &["denyRead", "allowRead", "allowWrite"], errors);
    let deny_read = paths(&mut fields, "denyRead", |path| match (path.root, path.absolute()) {
        (Root::Workspace | Root::Home, _) => {
            let root = if path.root == Root::Home { "home" } else { "workspace" };
            Some(format!(
                "{path} is in the agent's {root}, where the agent can rename and replace it; only paths outside can be hidden"
            ))
        }
        (_, Some(absolute)) if absolute.parent().is_none() => Some("/ cannot be hidden".to_owned()),
        _ => None,
    });
    let denied = |path: &PolicyPath| {
        deny_read
            .iter()
            .find(|(_, denied)| denied.contains(path))
            .map(|(_, denied)| format!("{path} is inside of {denied} in denyRead"))
    };
    let allow_read = paths(&mut fields, "allowRead", |path| {
        let forbidden = path.absolute().and_then(|path| ForbiddenDirectory::for_reading(&path));
        forbidden.map(|why| format!("{path}: {why}")).or_else(|| denied(path))
    });
    let allow_write = paths(&mut fields, "allowWrite", |path| {
        let forbidden = path.absolute().and_then(|path| ForbiddenDirectory::for_writing(&path));
        forbidden.map(|why| format!("{path}: {why}")).or_else(|| denied(path))
    });
    for (name, denied) in &deny_read {
        if let Some((_, writable)) =
            allow_write.iter().find(|(_, writable)| writable.contains(denied) && writable != denied)
        {
            fields.error(name, format!("{denied} is inside of {writable} in allowWrite, where the agent can rename and replace it"));
        }
    }
    let only_paths = |paths: Vec<(String, PolicyPath)>| paths.into_iter().map(|(_, path)| path).collect();
    FilesystemRules {
        deny_read: only_paths(deny_read),
        allow_read: only_paths(allow_read),
        allow_write: only_paths(allow_write),
    }
}

/// The paths of a list with the names of their fields, without those that are refused.
fn paths(
    fields: &mut Fields<'_, '_>,
    name: &str,
    refusal: impl Fn(&PolicyPath) -> Option<String>,
) -> Vec<(String, PolicyPath)> {
    let mut found = Vec::new();
    for (name, text) in fields.texts(name).into_iter().flatten() {
        match PolicyPath::parse(text) {
            Ok(path) => match refusal(&path) {
                Some(why) => fields.error(&name, why),
                None => found.push((name, path)),
            },
            Err(why) => fields.error(&name, why.to_string()),
        }
    }
    found
}

fn repository(value: &Value, path: &str, errors: &mut Vec<PolicyError>) -> RepositoryRules {
    let mut fields = Fields::of(value, path, &["allowSettings"], errors);
    RepositoryRules { allow_settings: fields.boolean("allowSettings").unwrap_or_default() }
}

fn limits(value: &Value, path: &str, errors: &mut Vec<PolicyError>) -> LimitRules {
    let mut fields = Fields::of(value, path, &["processes", "memoryMb", "fileMb"], errors);
    LimitRules {
        processes: fields.count("processes", MAX_PROCESSES),
        memory_mb: fields.count("memoryMb", MAX_MB),
        file_mb: fields.count("fileMb", MAX_MB),
    }
}
