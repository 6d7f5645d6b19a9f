//! `sunaba policy check`: finds all errors in a policy file, and prints the policies that apply to tasks.

use crate::config::commands::PolicyCheck;
use anyhow::Context;
use contract::policy::{EffectivePolicy, PolicyError, PolicyFile, SandboxPolicy};
use domain::{OrgId, ProjectId};
use serde_json::{Value, json};
use std::fs;
use std::process::ExitCode;
use terminal::{print_error, print_line};

/// A policy, and the tasks to which it applies.
struct Entry {
    name: String,
    effective: EffectivePolicy,
}

/// Fails if the file has an error.
///
/// # Errors
/// If the file cannot be read, or `--project` is invalid.
pub fn check(options: &PolicyCheck) -> anyhow::Result<ExitCode> {
    let text = fs::read_to_string(&options.file);
    let text = text.with_context(|| format!("cannot read {}", options.file.display()))?;
    let project = options.project.as_deref().map(parse_project).transpose()?;
    match PolicyFile::parse(&text) {
        Ok(file) => {
            let entries = entries(&file, project);
            print_line(&if options.json { as_json(&entries) } else { as_tables(&entries) });
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            if options.json {
                print_line(&pretty(&json!({ "valid": false, "errors": errors })));
            } else {
                print_errors(options, &errors);
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn parse_project(text: &str) -> anyhow::Result<(OrgId, ProjectId)> {
    let (org, project) = text.split_once('/').context("--project must be <org>/<project>")?;
    let org = OrgId::parse(org).context("--project must be <org>/<project>")?;
    Ok((org, ProjectId::parse(project).context("--project must be <org>/<project>")?))
}

/// The policy of one project, or of all that the file names and of the others.
fn entries(file: &PolicyFile, project: Option<(OrgId, ProjectId)>) -> Vec<Entry> {
    if let Some((org, project)) = project {
        let effective = file.effective(&org, Some(&project));
        return vec![Entry { name: format!("{org}/{project}"), effective }];
    }
    let named = file.projects().map(|(org, project)| Entry {
        name: format!("{org}/{}", project.map_or("*", ProjectId::as_str)),
        effective: file.effective(org, project),
    });
    let others = Entry { name: "all other tasks".to_owned(), effective: file.effective_default() };
    named.chain([others]).collect()
}

fn as_tables(entries: &[Entry]) -> String {
    entries.iter().map(as_table).collect::<Vec<_>>().join("\n\n")
}

fn as_table(Entry { name, effective }: &Entry) -> String {
    let rows = rows(&effective.policy);
    let width = rows.iter().map(|(field, _)| field.len()).max().unwrap_or_default();
    let lines = rows.iter().map(|(field, value)| {
        let is_narrowed = effective.narrowed.iter().any(|narrowed| narrowed == field);
        let note = if is_narrowed { "  (narrowed by the maximum)" } else { "" };
        format!("  {field:width$}  {value}{note}")
    });
    let title = format!("{name}: {}", effective.source);
    std::iter::once(title).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Every field with its value.
fn rows(policy: &SandboxPolicy) -> Vec<(&'static str, String)> {
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let limit = |limit: Option<u64>, default: String| limit.map_or(default, |limit| limit.to_string());
    let mut rows = Vec::new();
    match &policy.network {
        None => rows.push(("network.access", "that of the worker (NETWORK, else public)".to_owned())),
        Some(network) => {
            let hosts =
                |hosts: &[contract::policy::Host]| list(hosts.iter().map(ToString::to_string).collect());
            rows.push(("network.access", network.access.as_str().to_owned()));
            rows.push(("network.allowedDomains", hosts(&network.allowed_domains)));
            rows.push(("network.allowedPrivateHosts", hosts(&network.allowed_private_hosts)));
        }
    }
    let filesystem = &policy.filesystem;
    for (field, paths) in [
        ("filesystem.denyRead", &filesystem.deny_read),
        ("filesystem.allowRead", &filesystem.allow_read),
        ("filesystem.allowWrite", &filesystem.allow_write),
    ] {
        rows.push((field, list(paths.iter().map(ToString::to_string).collect())));
    }
    rows.push(("repository.allowSettings", policy.repository.allow_settings.to_string()));
    let default = confine::Limits::default();
    let of_provider = "that of the provider".to_owned();
    rows.push(("limits.processes", limit(policy.limits.processes, default.processes.to_string())));
    rows.push(("limits.memoryMb", limit(policy.limits.memory_mb, of_provider)));
    rows.push(("limits.fileMb", limit(policy.limits.file_mb, (default.file_bytes / MB).to_string())));
    rows
}

const MB: u64 = 1 << 20;

fn as_json(entries: &[Entry]) -> String {
    let policies: Vec<Value> = entries
        .iter()
        .map(|Entry { name, effective: EffectivePolicy { policy, source, narrowed } }| {
            json!({ "tasks": name, "source": source, "narrowed": narrowed, "policy": policy })
        })
        .collect();
    pretty(&json!({ "valid": true, "policies": policies }))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON values can be written")
}

fn print_errors(options: &PolicyCheck, errors: &[PolicyError]) {
    for error in errors {
        print_error(&format!("{}: {error}", options.file.display()));
    }
    let count = if errors.len() == 1 { "1 error".to_owned() } else { format!("{} errors", errors.len()) };
    print_error(&format!("{count} in {}", options.file.display()));
}
