//! Additional environment variables of workers, such as API keys of models and tokens of code hosts. The operator sets
//! them by name for every org, for one org, or for one project of it. The policies of sandboxes travel with them.

use contract::policy::{PolicyError, PolicyFile};
use domain::{OrgId, ProjectId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

type Variables = BTreeMap<String, String>;

/// Written as JSON:
///
/// ```json
/// {
///   "NODE_EXTRA_CA_CERTS": "/etc/ssl/ca.pem",
///   "policy": { "maximum": { "network": { "access": "none" } } },
///   "orgs": {
///     "acme": {
///       "ANTHROPIC_API_KEY": "…",
///       "projects": { "web": { "GITHUB_TOKEN": "…" } }
///     }
///   }
/// }
/// ```
///
/// `policy` has the form of [`PolicyFile`].
///
/// **Invariant:** a worker receives no variable of another org or of another project, and always the policy of its own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WorkerVariables {
    every_org: Variables,
    orgs: BTreeMap<OrgId, OrgVariables>,
    policies: Option<PolicyFile>,
}

#[derive(Deserialize)]
struct File {
    #[serde(flatten)]
    every_org: Variables,
    #[serde(default)]
    orgs: BTreeMap<OrgId, OrgVariables>,
    policy: Option<serde_json::Value>,
}

/// The variable with a worker's policy.
const POLICY: &str = "POLICY";

#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
struct OrgVariables {
    #[serde(flatten)]
    every_project: Variables,
    #[serde(default)]
    projects: BTreeMap<ProjectId, Variables>,
}

impl WorkerVariables {
    /// The same variables for every org.
    pub fn shared(variables: Variables) -> Self {
        Self { every_org: variables, ..Self::default() }
    }

    /// # Errors
    /// The message omits the variables, because they contain secrets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let File { every_org, orgs, policy } = serde_json::from_str(text).map_err(|_| {
            "worker variables must be a JSON object of strings; \"orgs\" maps the id of an org to such an object, and \
             \"projects\" in it the id of a project"
        })?;
        let policies = policy.map(|value| PolicyFile::of(&value)).transpose();
        let policies = policies.map_err(|errors| format!("policy: {}", PolicyError::join(&errors)))?;
        Ok(Self { every_org, orgs, policies })
    }

    /// The variables of a task's worker. The narrower definition of a name wins.
    pub fn of(&self, org_id: &OrgId, project_id: Option<&ProjectId>) -> Variables {
        let org = self.orgs.get(org_id);
        let project = org.and_then(|org| org.projects.get(project_id?));
        let layers = [Some(&self.every_org), org.map(|org| &org.every_project), project];
        let layers = layers.into_iter().flatten().flatten();
        let mut variables: Variables = layers.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(policies) = &self.policies {
            variables.insert(POLICY.to_owned(), policies.effective(org_id, project_id).policy.to_json());
        }
        variables
    }

    /// The variables of every org.
    pub fn of_every_org(&self) -> &Variables {
        &self.every_org
    }

    /// All values of a variable, with the org that it is for; `None` for every org.
    pub fn values(&self, name: &str) -> Vec<(Option<&OrgId>, &str)> {
        let shared = self.every_org.get(name).map(|value| (None, value.as_str()));
        let of_orgs = self.orgs.iter().flat_map(|(id, org)| {
            let layers = std::iter::once(&org.every_project).chain(org.projects.values());
            layers.filter_map(move |layer| layer.get(name)).map(move |value| (Some(id), value.as_str()))
        });
        shared.into_iter().chain(of_orgs).collect()
    }

    /// Adds variables for every org. Names that are set already keep their values.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Variables) -> Self {
        for (name, value) in defaults {
            self.every_org.entry(name).or_insert(value);
        }
        self
    }

    /// Whether there are policies.
    pub fn has_policies(&self) -> bool {
        self.policies.is_some()
    }

    /// With the policies of sandboxes.
    #[must_use]
    pub fn with_policies(mut self, policies: PolicyFile) -> Self {
        self.policies = Some(policies);
        self
    }

    /// All names and values, to be redacted from logs.
    pub fn all(&self) -> impl Iterator<Item = (&String, &String)> {
        let of_orgs = self
            .orgs
            .values()
            .flat_map(|org| org.every_project.iter().chain(org.projects.values().flatten()));
        self.every_org.iter().chain(of_orgs)
    }
}

impl fmt::Debug for WorkerVariables {
    /// Omits the values: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "CA": "every", "KEY": "plane",
        "orgs": {
            "acme": {"KEY": "acme", "projects": {"web": {"KEY": "web", "GITHUB_TOKEN": "web"}}},
            "other": {"OTHER": "planted"}
        }
    }"#;

    fn of(org: &str, project: Option<&str>) -> Vec<(String, String)> {
        let project = project.map(|project| ProjectId::parse(project).unwrap());
        let variables = WorkerVariables::parse(TEXT).unwrap();
        variables.of(&OrgId::parse(org).unwrap(), project.as_ref()).into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn worker_receives_no_variable_of_another_org_or_project() {
        let own = pairs(&[("CA", "every"), ("GITHUB_TOKEN", "web"), ("KEY", "web")]);
        assert_eq!(of("acme", Some("web")), own);
        assert_eq!(of("acme", Some("app")), pairs(&[("CA", "every"), ("KEY", "acme")]));
        assert_eq!(of("acme", None), pairs(&[("CA", "every"), ("KEY", "acme")]));
        assert_eq!(
            of("other", Some("web")),
            pairs(&[("CA", "every"), ("KEY", "plane"), ("OTHER", "planted")])
        );
        assert_eq!(of("new", None), pairs(&[("CA", "every"), ("KEY", "plane")]));
    }

    /// No variable of an org or project replaces it.
    #[test]
    fn every_worker_receives_its_policy_within_the_maximum() {
        let variables = WorkerVariables::parse(
            r#"{
                "POLICY": "{}",
                "orgs": {"acme": {"POLICY": "{}", "projects": {"web": {"POLICY": "{}"}}}},
                "policy": {
                    "maximum": {"limits": {"processes": 10}},
                    "projects": {"acme/web": {"limits": {"processes": 7}}, "acme/*": {"limits": {"processes": 99}}}
                }
            }"#,
        );
        let variables = variables.unwrap();
        let processes = |org: &str, project: Option<&str>| {
            let project = project.map(|project| ProjectId::parse(project).unwrap());
            let text = variables.of(&OrgId::parse(org).unwrap(), project.as_ref())[POLICY].clone();
            contract::policy::SandboxPolicy::parse(&text).unwrap().limits.processes
        };
        assert_eq!(processes("acme", Some("web")), Some(7));
        assert_eq!(processes("acme", Some("app")), Some(10));
        assert_eq!(processes("acme", None), Some(10));
        assert_eq!(processes("other", Some("web")), Some(10));
        let without = WorkerVariables::parse("{}").unwrap();
        assert!(!without.of(&OrgId::parse("acme").unwrap(), None).contains_key(POLICY));
        let error =
            WorkerVariables::parse(r#"{"policy": {"maximum": {"limits": {"processes": 0}}}}"#).unwrap_err();
        assert!(error.contains("maximum.limits.processes"), "{error}");
    }

    #[test]
    fn flat_object_applies_to_every_org() {
        let variables = WorkerVariables::parse(r#"{"ANTHROPIC_API_KEY": "k"}"#).unwrap();
        let expected = WorkerVariables::shared([("ANTHROPIC_API_KEY".to_owned(), "k".to_owned())].into());
        assert_eq!(variables, expected);
    }

    #[test]
    fn invalid_text_and_values_stay_out_of_messages() {
        for invalid in [
            r#"{"KEY": 7, "OTHER": "sesame"}"#,
            r#"["sesame"]"#,
            "sesame",
            r#"{"orgs": {"acme": "sesame"}}"#,
            r#"{"orgs": {"acme": {"projects": {"web": ["sesame"]}}}}"#,
            r#"{"KEY": "sesame", "policy": {"maximun": {}}}"#,
        ] {
            let error = WorkerVariables::parse(invalid).unwrap_err();
            assert!(!error.contains("sesame"), "{error}");
        }
        let debug = format!("{:?}", WorkerVariables::parse(TEXT).unwrap());
        assert!(debug.contains("OTHER") && !debug.contains("planted"), "{debug}");
    }
}
