//! The operator's file: the upper bound, the default, and the policies of projects.

use super::fields::{Fields, error};
use super::{PolicyError, SandboxPolicy, reader};
use domain::{OrgId, ProjectId};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Written as JSON:
///
/// ```json
/// {
///   "maximum": { "network": { "allowedDomains": ["set:registries", "github.com"] } },
///   "default": { "network": { "access": "none" } },
///   "projects": {
///     "acme/web": { "network": { "allowedDomains": ["registry.npmjs.org"] } },
///     "acme/*": {}
///   }
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFile {
    /// The upper bound of all others. `None` if there is none.
    maximum: Option<SandboxPolicy>,
    /// For tasks without a policy of their project.
    default: Option<SandboxPolicy>,
    /// By org and project. `None` for all other tasks of the org.
    projects: BTreeMap<(OrgId, Option<ProjectId>), SandboxPolicy>,
}

/// The policy of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePolicy {
    pub policy: SandboxPolicy,
    pub source: Source,
    /// The fields that the maximum has narrowed.
    pub narrowed: Vec<String>,
}

/// Where the policy of a task comes from, before the maximum applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    Project,
    Org,
    Default,
    /// The file names none.
    BuiltIn,
}

impl PolicyFile {
    /// # Errors
    /// All errors in it.
    pub fn parse(text: &str) -> Result<Self, Vec<PolicyError>> {
        Self::of(&reader::json(text)?)
    }

    /// # Errors
    /// All errors in it.
    pub fn of(value: &Value) -> Result<Self, Vec<PolicyError>> {
        let mut errors = Vec::new();
        let known = [&["maximum", "default", "projects"][..], &reader::SECTIONS].concat();
        let mut fields = Fields::of(value, "", &known, &mut errors);
        for section in reader::SECTIONS {
            if fields.get(section).is_some() {
                fields.error(section, "belongs in `maximum`, `default` or a project of `projects`");
            }
        }
        let [maximum, default, projects] = ["maximum", "default", "projects"].map(|name| fields.get(name));
        let maximum = maximum.map(|value| reader::policy(value, "maximum", &mut errors));
        let default = default.map(|value| reader::policy(value, "default", &mut errors));
        let projects = projects.map(|value| self::projects(value, &mut errors)).unwrap_or_default();
        if errors.is_empty() { Ok(Self { maximum, default, projects }) } else { Err(errors) }
    }

    /// The policy of a task.
    pub fn effective(&self, org: &OrgId, project: Option<&ProjectId>) -> EffectivePolicy {
        let of_project = project.and_then(|project| self.projects.get(&(org.clone(), Some(project.clone()))));
        let of_org = || self.projects.get(&(org.clone(), None)).map(|policy| (policy, Source::Org));
        let named = of_project.map(|policy| (policy, Source::Project)).or_else(of_org);
        match named {
            Some((policy, source)) => self.within_maximum(policy, source),
            None => self.effective_default(),
        }
    }

    /// The policy of a task whose project and org have none.
    pub fn effective_default(&self) -> EffectivePolicy {
        match &self.default {
            Some(policy) => self.within_maximum(policy, Source::Default),
            None => self.within_maximum(&SandboxPolicy::default(), Source::BuiltIn),
        }
    }

    fn within_maximum(&self, policy: &SandboxPolicy, source: Source) -> EffectivePolicy {
        let Some(maximum) = &self.maximum else {
            return EffectivePolicy { policy: policy.clone(), source, narrowed: Vec::new() };
        };
        let restricted = policy.restrict(maximum);
        EffectivePolicy { narrowed: changes(policy, &restricted), policy: restricted, source }
    }

    /// The orgs and projects that the file names.
    pub fn projects(&self) -> impl Iterator<Item = (&OrgId, Option<&ProjectId>)> {
        self.projects.keys().map(|(org, project)| (org, project.as_ref()))
    }
}

/// The fields that differ.
fn changes(before: &SandboxPolicy, after: &SandboxPolicy) -> Vec<String> {
    let with_network = |policy: &SandboxPolicy| SandboxPolicy {
        network: Some(policy.network.clone().unwrap_or_default()),
        ..policy.clone()
    };
    let fields = |policy: &SandboxPolicy| -> BTreeMap<String, Value> {
        let value = serde_json::to_value(with_network(policy)).unwrap_or_default();
        let sections = value.as_object().cloned().unwrap_or_default().into_iter();
        let fields = sections.flat_map(|(section, fields)| {
            let fields = fields.as_object().cloned().unwrap_or_default().into_iter();
            fields.map(move |(name, value)| (format!("{section}.{name}"), value))
        });
        fields.collect()
    };
    let (before, after) = (fields(before), fields(after));
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

fn projects(
    value: &Value,
    errors: &mut Vec<PolicyError>,
) -> BTreeMap<(OrgId, Option<ProjectId>), SandboxPolicy> {
    let Some(projects) = value.as_object() else {
        errors.push(error("projects", "must be an object of policies by `<org>/<project>`"));
        return BTreeMap::new();
    };
    let mut policies = BTreeMap::new();
    for (name, value) in projects {
        let path = format!("projects[{name:?}]");
        let policy = reader::policy(value, &path, errors);
        match parse_project(name) {
            Some(key) => drop(policies.insert(key, policy)),
            None => errors.push(error(
                &path,
                "must be named `<org>/<project>`, or `<org>/*` for all others of the org",
            )),
        }
    }
    policies
}

/// Parses `<org>/<project>`, or `<org>/*`.
fn parse_project(name: &str) -> Option<(OrgId, Option<ProjectId>)> {
    let (org, project) = name.split_once('/')?;
    let project = if project == "*" { None } else { Some(ProjectId::parse(project).ok()?) };
    Some((OrgId::parse(org).ok()?, project))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "its own policy",
            Self::Org => "the policy of its org",
            Self::Default => "the default of the file",
            Self::BuiltIn => "the built-in policy",
        })
    }
}
